import { onAbort } from './on-abort.js'

/** Lets at most `limit` jobs run at once, first come first served. */
export class Limiter {
  #free: number
  readonly #waiting: (() => void)[] = []

  constructor(limit: number) {
    this.#free = limit
  }

  /** Waits for a free place and runs the job in it. @throws the signal's reason when aborted while waiting */
  async run<T>(job: () => Promise<T>, signal: AbortSignal): Promise<T> {
    await this.#enter(signal)
    try {
      return await job()
    } finally {
      const next = this.#waiting.shift()
      if (next) next()
      else this.#free++
    }
  }

  async #enter(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    if (this.#free > 0) {
      this.#free--
      return
    }
    await new Promise<void>((resolve, reject) => {
      const enter = () => {
        ignore()
        resolve()
      }
      const ignore = onAbort(signal, () => {
        this.#waiting.splice(this.#waiting.indexOf(enter), 1)
        reject(signal.reason as Error)
      })
      this.#waiting.push(enter)
    })
  }
}
