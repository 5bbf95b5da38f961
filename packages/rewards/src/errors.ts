import { TypedError } from '@selfplay/renderers'

/** The base of every error of this package. */
export class RewardsError extends TypedError {}

/** An option or an argument that cannot be used as it came. */
export class RewardOptionsError extends RewardsError {
  constructor(message: string, details?: Record<string, unknown>) {
    super('reward_options', message, details)
  }
}

/** Judging did not settle in time. */
export class RewardTimeoutError extends RewardsError {
  constructor(seconds: number) {
    super('reward_timeout', `judging has not settled within ${seconds} s: raise timeoutSeconds or make it answer`, {
      seconds,
    })
  }
}

/** Code that gives rewards returned something that is none: NaN, infinity, the wrong type, or too few or too many of them. */
export class RewardValueError extends RewardsError {
  constructor(message: string, details?: Record<string, unknown>) {
    super('reward_value', message, details)
  }
}

/** So many calls in a row failed that it is no accident. `cause` is the first of these failures, as it was thrown. */
export class RewardFailuresError extends RewardsError {
  constructor(message: string, details: Record<string, unknown>, options: ErrorOptions) {
    super('reward_failures', message, details, options)
  }
}

/** The expected answer that a verifier was given is itself unusable: the task is wrong, not the answer. */
export class ExpectedAnswerError extends RewardsError {
  constructor(message: string, details?: Record<string, unknown>) {
    super('expected_answer', message, details)
  }
}

/** A pattern uses what cannot be matched in linear time (back references, look-around), or is none. */
export class UnsupportedPatternError extends RewardsError {
  constructor(message: string, details?: Record<string, unknown>) {
    super('unsupported_pattern', message, details)
  }
}

/** Code can only be run where the optional package `quickjs-emscripten` is installed. */
export class SandboxMissingError extends RewardsError {
  constructor(message: string, details?: Record<string, unknown>, options?: ErrorOptions) {
    super('sandbox_missing', message, details, options)
  }
}

/** The sandbox itself failed or was closed; this says nothing about the code that it was given. */
export class SandboxError extends RewardsError {
  constructor(message: string, details?: Record<string, unknown>, options?: ErrorOptions) {
    super('sandbox', message, details, options)
  }
}

/** A judge cannot judge: its labels cannot be told apart, or its log-probs are no log-probs. */
export class JudgeError extends RewardsError {
  constructor(message: string, details?: Record<string, unknown>, options?: ErrorOptions) {
    super('judge', message, details, options)
  }
}
