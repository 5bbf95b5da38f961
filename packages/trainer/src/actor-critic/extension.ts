import type { Table } from '../magrpo/agents.js'
import type { Extension } from '../magrpo/extension.js'
import { analyseWithCritics } from './analyse.js'
import type { CriticSettings } from './config.js'
import type { CriticSeat } from './critics.js'
import { CriticTraining } from './train-critics.js'

export interface CriticExtensionOptions {
  readonly trainer: string
  readonly settings: CriticSettings
  readonly critics: (table: Table) => readonly CriticSeat[]
  readonly shared: boolean
}

/** What makes the common trainer an actor-critic. */
export function criticExtension({ trainer, settings, critics: seat, shared }: CriticExtensionOptions) {
  return (table: Table): Extension => {
    const critics = seat(table)
    const agentRates = table.seats.map(({ settings: { learningRate } }) => learningRate)
    return {
      trainer,
      settings: { ...settings },
      parts: critics.filter(({ policy }) => policy === null).map(({ name, client }) => ({ name, client })),
      analyse: async (roots, options) => {
        const analysis = await analyseWithCritics(roots, { ...options, critics, settings, shared })
        const { beforeStep, train } = new CriticTraining(analysis, settings, agentRates)
        return { ...analysis, beforeStep, train }
      },
    }
  }
}
