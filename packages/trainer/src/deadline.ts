import { setMaxListeners } from 'node:events'
import { bounded } from '@selfplay/env'
import { DeadlineError } from './errors.js'

export interface DeadlineOptions {
  readonly seconds: number
  readonly signal: AbortSignal
  /** Names the call in the error, e.g. `rewardFunc`. */
  readonly what: string
}

/**
 * Runs a call of user code under a deadline. The call gets a signal that aborts at the deadline and with the caller's.
 *
 * @throws what the call throws; DeadlineError when it has not settled in time; the signal's reason when aborted. A call
 *   that settles later than that is ignored.
 */
export async function withDeadline<T>(
  call: (signal: AbortSignal) => T | Promise<T>,
  { seconds, signal, what }: DeadlineOptions,
): Promise<T> {
  const message = `${what} has not settled within ${seconds} s: raise the timeout or make it answer`
  const expired = () => new DeadlineError(message, { seconds, what })
  return bounded(call, { signal, deadlines: seconds === Infinity ? [] : [{ ms: seconds * 1000, expired }] })
}

/** Runs jobs with at most `limit` at once; results in job order. The first failure rejects once the started ones settled. */
export async function runLimited<T>(jobs: readonly (() => Promise<T>)[], limit: number): Promise<T[]> {
  const results: T[] = []
  let next = 0
  let failure: { readonly error: unknown } | undefined
  const worker = async () => {
    while (next < jobs.length && !failure) {
      const index = next++
      try {
        results[index] = await jobs[index]!()
      } catch (error) {
        failure ??= { error }
      }
    }
  }
  await Promise.all(Array.from({ length: Math.min(limit, jobs.length) }, worker))
  if (failure) throw failure.error
  return results
}

/** Waits for all; rejects with the first failure only after every promise has settled, so that nothing runs on behind it. */
export async function settleAll<T>(promises: readonly Promise<T>[]): Promise<T[]> {
  const settled = await Promise.allSettled(promises)
  const failed = settled.find((result) => result.status === 'rejected')
  if (failed) throw failed.reason
  return settled.map((result) => (result as PromiseFulfilledResult<T>).value)
}

/** A signal that follows another one and may have any number of listeners; `release` lets go of the other one. */
export function followSignal(outer: AbortSignal): { readonly signal: AbortSignal; readonly release: () => void } {
  const controller = new AbortController()
  setMaxListeners(0, controller.signal)
  const follow = () => controller.abort(outer.reason)
  if (outer.aborted) follow()
  else outer.addEventListener('abort', follow, { once: true })
  return { signal: controller.signal, release: () => outer.removeEventListener('abort', follow) }
}
