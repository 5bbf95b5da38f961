import { onAbort } from './on-abort.js'

interface Waiting {
  readonly start: () => void
  readonly release: () => void
}

/** Lets at most `limit` jobs run at once, first come first served. A job that is aborted while it waits never starts. */
export class Limiter {
  readonly limit: number
  #running = 0
  readonly #queue: Waiting[] = []

  constructor(limit: number) {
    this.limit = limit
  }

  /** Jobs that run now. */
  get running(): number {
    return this.#running
  }

  /** Waits for a free place and runs the job in it. @throws the signal's reason when aborted while waiting */
  async run<T>(job: () => Promise<T>, signal: AbortSignal): Promise<T> {
    await this.#acquire(signal)
    try {
      return await job()
    } finally {
      this.#release()
    }
  }

  #acquire(signal: AbortSignal): Promise<void> | void {
    signal.throwIfAborted()
    if (this.#running < this.limit && this.#queue.length === 0) {
      this.#running++
      return
    }
    return new Promise((resolve, reject) => {
      const release = onAbort(signal, () => {
        this.#queue.splice(this.#queue.indexOf(waiting), 1)
        reject(signal.reason as Error)
      })
      const waiting: Waiting = { start: resolve, release }
      this.#queue.push(waiting)
    })
  }

  #release(): void {
    const next = this.#queue.shift()
    if (!next) {
      this.#running--
      return
    }
    next.release()
    next.start() // it takes over the place
  }
}
