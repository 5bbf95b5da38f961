import { onAbort } from './on-abort.js'

/** After so many milliseconds a call fails with the error that `expired` makes. */
export interface Deadline {
  readonly ms: number
  readonly expired: () => Error
}

export interface BoundOptions {
  readonly signal: AbortSignal
  /** The earliest one counts. */
  readonly deadlines?: readonly Deadline[]
}

/** The longest delay that a timer takes. */
const MAX_DELAY = 2_147_483_647

/**
 * Runs a call of somebody else's code so that it cannot hang us. The call gets a signal that aborts with the caller's and at
 * the deadline. A call that answers at once costs no timer.
 *
 * @throws what the call throws; the deadline's error; the signal's reason when aborted. What the call does later is ignored,
 *   and nothing of it is kept: no timer, no listener.
 */
export function bounded<T>(
  call: (signal: AbortSignal) => T | PromiseLike<T>,
  { signal, deadlines = [] }: BoundOptions,
): T | Promise<T> {
  signal.throwIfAborted()
  const first = deadlines.reduce<Deadline | undefined>((a, b) => (a === undefined || b.ms < a.ms ? b : a), undefined)
  if (first && first.ms <= 0) throw first.expired()
  const inner = new AbortController()
  const running = call(inner.signal)
  return isPromise(running) ? race(running, inner, signal, first) : running
}

const isPromise = <T>(value: T | PromiseLike<T>): value is PromiseLike<T> =>
  typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function'

function race<T>(
  running: PromiseLike<T>,
  inner: AbortController,
  signal: AbortSignal,
  deadline: Deadline | undefined,
): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    // `settle` lets go of everything, so that a call that never settles holds nothing of ours.
    let settle: ((how: () => void) => void) | undefined = (how) => {
      settle = undefined
      clearTimeout(timer)
      release()
      how()
    }
    const stop = (reason: unknown) =>
      settle?.(() => {
        inner.abort(reason)
        reject(reason as Error)
      })
    const timer = deadline && setTimeout(() => stop(deadline.expired()), Math.min(deadline.ms, MAX_DELAY))
    const release = onAbort(signal, () => stop(signal.reason))
    if (signal.aborted) stop(signal.reason) // the call itself aborted it, before anyone listened
    running.then(
      (value) => settle?.(() => resolve(value)),
      (error: unknown) => settle?.(() => reject(error as Error)),
    )
  })
}

/** A signal that follows another one and can be aborted by itself; `release` lets go of the other one. */
export function follow(outer: AbortSignal): { readonly controller: AbortController; readonly release: () => void } {
  const controller = new AbortController()
  const abort = () => controller.abort(outer.reason)
  if (outer.aborted) abort()
  return { controller, release: outer.aborted ? () => {} : onAbort(outer, abort) }
}
