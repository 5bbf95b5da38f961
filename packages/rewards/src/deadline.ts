import { RewardsError } from './errors.js'
import { onAbort } from './on-abort.js'

/** Judging did not settle in time. */
export class RewardTimeoutError extends RewardsError {
  constructor(seconds: number) {
    super('reward_timeout', `judging has not settled within ${seconds} s: raise timeoutSeconds or make it answer`, {
      seconds,
    })
  }
}

/**
 * Calls with a signal that fires when `signal` does or the time is up, and settles then, even if the call never does.
 *
 * @throws RewardTimeoutError; the signal's reason when aborted; what the call throws
 */
export async function withDeadline<T>(
  call: (signal: AbortSignal) => T | PromiseLike<T>,
  { seconds, signal }: { readonly seconds: number; readonly signal: AbortSignal },
): Promise<T> {
  signal.throwIfAborted()
  const inner = new AbortController()
  let stop: () => void = () => {}
  const interrupted = new Promise<never>((_, reject) => {
    const end = (reason: unknown) => {
      inner.abort(reason)
      reject(reason as Error)
    }
    const timer = setTimeout(() => end(new RewardTimeoutError(seconds)), Math.min(seconds * 1000, 2 ** 31 - 1))
    const ignore = onAbort(signal, () => end(signal.reason))
    stop = () => {
      clearTimeout(timer)
      ignore()
    }
  })
  try {
    return await Promise.race([interrupted, Promise.resolve(call(inner.signal))])
  } finally {
    stop()
  }
}
