import { TypedError } from '@selfplay/renderers'

/** The base of every error of this package. */
export class EnvError extends TypedError {}

/** An option or an argument that cannot be used as it came. */
export class EnvInputError extends EnvError {
  constructor(message: string, details?: Record<string, unknown>) {
    super('invalid_input', message, details)
  }
}

/** An environment gave something that breaks its contract: no message, a reward that is no number, ... */
export class EnvContractError extends EnvError {
  constructor(message: string, details?: Record<string, unknown>) {
    super('env_contract', message, details)
  }
}

/** `nextMessages` repeated the conversation so far. It holds only what is new; the framework keeps the rest. */
export class FullHistoryReturnedError extends EnvError {
  constructor(message: string, details?: Record<string, unknown>) {
    super('full_history_returned', message, details)
  }
}

/** An environment was used again after its one episode. */
export class EnvReusedError extends EnvError {
  constructor(message: string, details?: Record<string, unknown>) {
    super('env_reused', message, details)
  }
}

/** A prompt leaves no room for even one new token. */
export class PromptOverflowError extends EnvError {
  constructor(message: string, details?: Record<string, unknown>) {
    super('context_overflow', message, details)
  }
}

/** A call did not settle in time. `code` is `env_timeout`, `sample_timeout`, `reward_timeout`, `rollout_timeout`, ... */
export class TimeoutError extends EnvError {
  constructor(what: string, seconds: number, code: `${string}_timeout`) {
    super(code, `${what} has not settled within ${seconds} s: raise the timeout or make it answer`, { what, seconds })
  }
}

/** A scripted policy was asked for more replies than its script has. */
export class ScriptExhaustedError extends EnvError {
  constructor(message: string, details?: Record<string, unknown>) {
    super('script_exhausted', message, details)
  }
}

/** The terminal was closed before a reply was typed. */
export class InputClosedError extends EnvError {
  constructor(message: string, details?: Record<string, unknown>) {
    super('input_closed', message, details)
  }
}

/** Rewards of a group that cannot be used: a wrong number of them, or one that is no finite number. */
export class GroupRewardError extends EnvError {
  constructor(message: string, details?: Record<string, unknown>) {
    super('group_reward', message, details)
  }
}

/** Too many groups failed in a row. `cause` says what the first failure was: boundary, code and message. */
export class ConsecutiveFailuresError extends EnvError {
  constructor(message: string, details?: Record<string, unknown>, options?: ErrorOptions) {
    super('consecutive_failures', message, details, options)
  }
}

/** Text that is no legal move of a game. `details.reason` says why: `no_move`, `several_moves`, or the game's own word. */
export class IllegalMoveError extends EnvError {
  constructor(message: string, details: { readonly reason: string } & Record<string, unknown> = { reason: 'illegal' }) {
    super('illegal_move', message, details)
  }
}
