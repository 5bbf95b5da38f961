import { Interrupted } from './failure.js'

/** The part of `process` that is needed here. */
export interface SignalSource {
  on(event: NodeJS.Signals, listener: (signal: NodeJS.Signals) => void): unknown
  off(event: NodeJS.Signals, listener: (signal: NodeJS.Signals) => void): unknown
}

export interface InterruptOptions {
  readonly source: SignalSource
  /** Called at the first signal, after the abort. */
  readonly onFirst: () => void
  /** Called at the second one: leave at once. */
  readonly onSecond: (exitCode: number) => void
  /** Milliseconds; only differences count. Default: a monotonic clock. */
  readonly now?: () => number
}

/**
 * npm passes on a Ctrl-C that the terminal has sent to the whole group already: signals within this time of the first one are
 * the same key press.
 */
const SAME_PRESS_MS = 500

/** The first SIGINT or SIGTERM aborts the signal, a second one calls `onSecond`. `release` takes the listeners away. */
export function interruptSignal({ source, onFirst, onSecond, now = () => performance.now() }: InterruptOptions): {
  readonly signal: AbortSignal
  readonly release: () => void
} {
  const controller = new AbortController()
  let pressedAt: number | undefined
  const listener = (name: NodeJS.Signals) => {
    const reason = new Interrupted(name === 'SIGTERM' ? 'SIGTERM' : 'SIGINT')
    if (pressedAt === undefined) {
      pressedAt = now()
      controller.abort(reason)
      onFirst()
    } else if (now() - pressedAt > SAME_PRESS_MS) onSecond(reason.exitCode)
  }
  source.on('SIGINT', listener)
  source.on('SIGTERM', listener)
  const release = () => {
    source.off('SIGINT', listener)
    source.off('SIGTERM', listener)
  }
  return { signal: controller.signal, release }
}
