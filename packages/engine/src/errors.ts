/** What every typed error of our packages carries. Engine and renderers import nothing of ours, so a class cannot tell. */
const MARK = Symbol.for('selfplay.error')

/**
 * The base of the typed errors of training cores and loops. `instanceof SelfplayError` holds for every typed error of our
 * packages, also for those of renderers, env and rewards, whose base is `TypedError` of `@selfplay/renderers`.
 *
 * `message` says what was expected, what came and what to do; `code` is stable and meant for `switch`.
 */
export class SelfplayError extends Error {
  static {
    Object.defineProperty(this.prototype, MARK, { value: true })
  }

  static override [Symbol.hasInstance](value: unknown): boolean {
    if (this !== SelfplayError) return super[Symbol.hasInstance](value)
    return typeof value === 'object' && value !== null && MARK in value
  }

  /** A stable identifier such as `"bad_datum"`. */
  readonly code: string
  /** Structured facts: whatever identifies the place (step, agent, sample, path, ...). */
  readonly details: Readonly<Record<string, unknown>>

  constructor(code: string, message: string, details: Record<string, unknown> = {}, options?: ErrorOptions) {
    super(message, options)
    this.name = new.target.name
    this.code = code
    this.details = details
  }
}

/** A datum, an option or a request that cannot be used as it came. */
export class InvalidInputError extends SelfplayError {
  constructor(message: string, details?: Record<string, unknown>) {
    super('invalid_input', message, details)
  }
}

/** A loss or a gradient became NaN or infinite. The weights are as they were before the call. */
export class NonFiniteError extends SelfplayError {
  constructor(message: string, details?: Record<string, unknown>) {
    super('non_finite', message, details)
  }
}

/** A live sampler was used after `optimStep` changed the weights that it reads. Ask the client for a new one. */
export class StaleSamplerError extends SelfplayError {
  constructor(message: string, details?: Record<string, unknown>) {
    super('stale_sampler', message, details)
  }
}

/** A prompt leaves no room for even one new token. */
export class ContextOverflowError extends SelfplayError {
  constructor(message: string, details?: Record<string, unknown>) {
    super('context_overflow', message, details)
  }
}

/** A checkpoint, model folder or other file is missing, damaged, or newer than this version understands. */
export class CheckpointError extends SelfplayError {
  constructor(message: string, details?: Record<string, unknown>, options?: ErrorOptions) {
    super('checkpoint', message, details, options)
  }
}

/** The client, sampler or session was disposed. */
export class DisposedError extends SelfplayError {
  constructor(message: string, details?: Record<string, unknown>) {
    super('disposed', message, details)
  }
}
