import { ConfigError, DatasetError } from '../errors.js'
import type { ResolvedConfig } from './config.js'
import { isPrompt } from './prompts.js'
import type { MAGRPOTrainerOptions } from './trainer.js'
import type { PromptRow } from './types.js'

/** Refuses at construction what could only fail later. */
export function checkTask<Row extends PromptRow>(options: MAGRPOTrainerOptions<Row>, config: ResolvedConfig): void {
  const { rewardFunc, externalTransition, formatters, trainDataset, evalDataset, agents, references } = options
  if (typeof rewardFunc !== 'function') throw new ConfigError('rewardFunc: expected a function, got none')
  if (config.numTurns > 1 && typeof externalTransition !== 'function') {
    throw new ConfigError(
      `config.numTurns is ${config.numTurns}, but there is no externalTransition to write the next turn's prompts`,
      { numTurns: config.numTurns },
    )
  }
  for (const [name, list] of [
    ['formatters', formatters],
    ['references', references],
  ] as const) {
    if (Array.isArray(list) && list.length !== agents.length) {
      throw new ConfigError(`${name}: expected one per agent (${agents.length}), got ${list.length}`, {
        expected: agents.length,
        got: list.length,
      })
    }
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

/** Refuses a row without a prompt. */
export function checkRow(row: PromptRow, index: number): void {
  const prompt: unknown = (row as PromptRow | null | undefined)?.prompt
  if (isPrompt(prompt)) return
  throw new DatasetError(`row ${index} has no prompt: expected {prompt: text or a list of {role, content}}`, {
    row: index,
  })
}
