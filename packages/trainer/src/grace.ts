import { setMaxListeners } from 'node:events'

/** A signal that aborts some time after another one, once it has been started: an update gets to its end or is given up. */
export class Grace {
  private readonly controller = new AbortController()
  private readonly outer: AbortSignal
  private readonly seconds: number
  private timer: NodeJS.Timeout | undefined
  private started: boolean

  /** @param started whether the time of grace counts from the beginning. Default false: from {@link start} on. */
  constructor(outer: AbortSignal, seconds: number, started = false) {
    this.outer = outer
    this.seconds = seconds
    this.started = started
    setMaxListeners(0, this.controller.signal)
    outer.addEventListener('abort', this.onAbort)
    if (outer.aborted) this.onAbort()
  }

  get signal(): AbortSignal {
    return this.controller.signal
  }

  private readonly onAbort = () => {
    const stop = () => this.controller.abort(this.outer.reason)
    if (!this.started) stop()
    else this.timer ??= setTimeout(stop, this.seconds * 1000)
  }

  /** From here on the time of grace counts. */
  start(): void {
    this.started = true
  }

  end(): void {
    clearTimeout(this.timer)
    this.outer.removeEventListener('abort', this.onAbort)
  }
}
