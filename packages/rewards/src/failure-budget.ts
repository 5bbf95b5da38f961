import { bounded } from '@selfplay/env'
import { z } from 'zod'
import { RewardFailuresError, RewardTimeoutError, RewardsError } from './errors.js'
import { parseOptions } from './options.js'

/** What became of one call. */
export type Attempt<T> =
  | { readonly ok: true; readonly value: T }
  /** `reason` is the error's message, led by its name or code; `error` is what was thrown. */
  | { readonly ok: false; readonly reason: string; readonly error: unknown }

/** Plain data, fit for a checkpoint. */
export interface FailureCounts {
  readonly succeeded: number
  readonly failed: number
  /** Failures since the last success. */
  readonly consecutive: number
}

export interface FailureBudgetOptions {
  /** So many failures in a row stop the run. Default 3. */
  readonly maxConsecutive?: number
  /** Where the counting starts: that of a run which is resumed. Default zero everywhere. */
  readonly counts?: FailureCounts
}

const count = z.int().nonnegative()
const schema = z.strictObject({
  maxConsecutive: z.int().positive().default(3),
  counts: z
    .strictObject({ succeeded: count, failed: count, consecutive: count })
    .default({ succeeded: 0, failed: 0, consecutive: 0 }),
})

/**
 * Tells an accident from a bug: single failures are counted and survived, `maxConsecutive` in a row stop the run with the
 * first of them as the cause. One budget may be shared by all that judges in a run.
 */
export class FailureBudget {
  readonly maxConsecutive: number
  #counts: FailureCounts
  #first: unknown

  constructor(options: FailureBudgetOptions = {}) {
    const { maxConsecutive, counts } = parseOptions(schema, options, 'FailureBudget')
    this.maxConsecutive = maxConsecutive
    this.#counts = counts
  }

  get counts(): FailureCounts {
    return this.#counts
  }

  /**
   * Counts what became of a call.
   *
   * @throws RewardFailuresError when it is the last failure that the budget allows
   */
  record(attempt: Attempt<unknown>): void {
    const { succeeded, failed, consecutive } = this.#counts
    if (attempt.ok) {
      this.#counts = { succeeded: succeeded + 1, failed, consecutive: 0 }
      this.#first = undefined
      return
    }
    this.#first ??= attempt.error
    this.#counts = { succeeded, failed: failed + 1, consecutive: consecutive + 1 }
    if (consecutive + 1 < this.maxConsecutive) return
    throw new RewardFailuresError(
      `${consecutive + 1} reward calls in a row have failed (at most ${this.maxConsecutive - 1} may); the first: ` +
        reasonOf(this.#first),
      { ...this.#counts },
      { cause: this.#first },
    )
  }
}

/**
 * Calls once and catches. Not settling in time is a failure as well.
 *
 * @throws the signal's reason when aborted: that is no failure of the call
 */
export async function attempt<T>(
  call: (signal: AbortSignal) => T | PromiseLike<T>,
  { timeoutSeconds, signal }: { readonly timeoutSeconds: number; readonly signal: AbortSignal },
): Promise<Attempt<T>> {
  const deadline = { ms: timeoutSeconds * 1000, expired: () => new RewardTimeoutError(timeoutSeconds) }
  try {
    return { ok: true, value: await bounded(call, { signal, deadlines: [deadline] }) }
  } catch (error) {
    if (signal.aborted) throw signal.reason
    return { ok: false, reason: reasonOf(error), error }
  }
}

/** One line about what was thrown. */
function reasonOf(error: unknown): string {
  if (error instanceof RewardsError) return `${error.code}: ${error.message}`
  return error instanceof Error ? `${error.name}: ${error.message}` : String(error)
}
