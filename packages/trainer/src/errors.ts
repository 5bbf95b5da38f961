import { SelfplayError } from '@selfplay/engine'

/** A config or an argument that cannot be used; unknown keys come with the nearest known one. */
export class ConfigError extends SelfplayError {
  constructor(message: string, details?: Record<string, unknown>) {
    super('config', message, details)
  }
}

/** The data set is empty, ended where it must not, or holds a row without a prompt. */
export class DatasetError extends SelfplayError {
  constructor(message: string, details?: Record<string, unknown>, options?: ErrorOptions) {
    super('dataset', message, details, options)
  }
}

/** Why a reward call failed. */
export type RewardFailure = 'threw' | 'timeout' | 'wrong_length' | 'not_a_number'

/** A reward function threw, did not settle in time, or returned something that is no reward. `cause` is what it threw. */
export class RewardError extends SelfplayError {
  readonly failure: RewardFailure

  constructor(failure: RewardFailure, message: string, details?: Record<string, unknown>, options?: ErrorOptions) {
    super('reward', message, { failure, ...details }, options)
    this.failure = failure
  }
}

/** The transition threw, did not settle in time, or returned something that is not one prompt per agent. */
export class TransitionError extends SelfplayError {
  constructor(message: string, details?: Record<string, unknown>, options?: ErrorOptions) {
    super('transition', message, details, options)
  }
}

/** A formatter threw or returned something that is no prompt. */
export class FormatterError extends SelfplayError {
  constructor(message: string, details?: Record<string, unknown>, options?: ErrorOptions) {
    super('formatter', message, details, options)
  }
}

/** Sampler and trainer disagree on the log-probs of the sampled tokens: the step was refused. */
export class SamplerGapError extends SelfplayError {
  constructor(message: string, details?: Record<string, unknown>) {
    super('sampler_gap', message, details)
  }
}

/** A call of user code did not settle within its deadline. */
export class DeadlineError extends SelfplayError {
  constructor(message: string, details?: Record<string, unknown>) {
    super('deadline', message, details)
  }
}

/** A run folder is missing a part, is in use by other settings, or cannot be written. */
export class RunFolderError extends SelfplayError {
  constructor(message: string, details?: Record<string, unknown>, options?: ErrorOptions) {
    super('run_folder', message, details, options)
  }
}

/** Another process has the run folder, or a lock says nothing about whose it is. */
export class RunLockedError extends SelfplayError {
  constructor(message: string, details?: Record<string, unknown>) {
    super('run_locked', message, details)
  }
}

/** The mean reward fell from its peak and the config says to stop then. `details.best`: the update whose checkpoint is kept; null: none. */
export class CollapseError extends SelfplayError {
  constructor(message: string, details?: Record<string, unknown>) {
    super('collapse', message, details)
  }
}
