import { didYouMean } from '@selfplay/renderers'
import { ConfigError, DatasetError } from '../errors.js'
import type { ResolvedConfig } from './config.js'
import { isPrompt } from './prompts.js'
import { checkAdapter } from './roles.js'
import type { MAGRPOTrainerOptions } from './trainer.js'
import type { PromptRow } from './types.js'

/** Every option of the trainer; a record, so that the compiler keeps it whole. */
const KNOWN: Record<keyof MAGRPOTrainerOptions<PromptRow>, true> = {
  agents: true,
  tokenizer: true,
  trainDataset: true,
  evalDataset: true,
  config: true,
  run: true,
  trackers: true,
  references: true,
  onNotice: true,
  rewardFunc: true,
  rewardProcessor: true,
  externalTransition: true,
  centralized: true,
  formatters: true,
}
const OPTIONS = Object.keys(KNOWN)

/** @throws ConfigError for an option that a trainer does not have. @param own those that it has besides MAGRPO's. */
export function refuseUnknown(options: object, own: readonly string[] = []): void {
  const known = [...OPTIONS, ...own]
  for (const key of Object.keys(options)) {
    if (known.includes(key)) continue
    throw new ConfigError(`the trainer has no option "${key}"${didYouMean(key, known)}`, { key })
  }
}

/** Refuses at construction what could only fail later. */
export function checkTask<Row extends PromptRow>(options: MAGRPOTrainerOptions<Row>, config: ResolvedConfig): void {
  const { rewardFunc, externalTransition, formatters, trainDataset, evalDataset, agents, references, centralized } =
    options
  refuseUnknown(options)
  if (typeof rewardFunc !== 'function') throw new ConfigError('rewardFunc: expected a function, got none')
  if (config.numTurns > 1 && typeof externalTransition !== 'function') {
    throw new ConfigError(
      `config.numTurns is ${config.numTurns}, but there is no externalTransition to write the next turn's prompts`,
      { numTurns: config.numTurns },
    )
  }
  if (config.numTurns === 1 && externalTransition !== undefined) {
    throw new ConfigError(
      'externalTransition writes the prompts of a next turn, but config.numTurns is 1: raise it, or leave externalTransition out',
      { numTurns: 1 },
    )
  }
  if (centralized) checkAdapter(centralized, agents.length)
  const roles = centralized?.numRoles ?? agents.length
  for (const [name, list, expected] of [
    ['formatters', formatters, roles],
    ['references', references, agents.length],
  ] as const) {
    if (Array.isArray(list) && list.length !== expected) {
      throw new ConfigError(`${name}: expected one per agent (${expected}), got ${list.length}`, {
        expected,
        got: list.length,
      })
    }
  }
  if (!isDataset(trainDataset)) {
    throw new DatasetError(`trainDataset: expected a list of rows or an async iterable, got ${typeof trainDataset}`)
  }
  if (Array.isArray(trainDataset) && trainDataset.length === 0) {
    throw new DatasetError('trainDataset has no rows: expected at least one')
  }
  if (evalDataset?.length === 0)
    throw new DatasetError('evalDataset has no rows: expected at least one, or leave it out')
  if (config.learningRateSchedule !== 'constant' && config.maxSteps === null && !Array.isArray(trainDataset)) {
    throw new ConfigError(
      `config.learningRateSchedule "${config.learningRateSchedule}" needs to know how many updates there will be, ` +
        'but an async data set does not tell its length: set maxSteps, use "constant", or pass an array',
    )
  }
  if (config.order === 'shuffled' && !Array.isArray(trainDataset)) {
    throw new ConfigError('config.order "shuffled" needs an array: an async data set has no known length. Use "fixed"')
  }
}

const isDataset = (value: unknown): boolean =>
  Array.isArray(value) || (typeof value === 'object' && value !== null && Symbol.asyncIterator in value)

/** Refuses a row without a prompt. */
export function checkRow(row: PromptRow, index: number): void {
  const prompt: unknown = (row as PromptRow | null | undefined)?.prompt
  if (isPrompt(prompt)) return
  throw new DatasetError(`row ${index} has no prompt: expected {prompt: text or a list of {role, content}}`, {
    row: index,
  })
}
