/** Runs jobs one after another, in the order in which they came. */
export class SerialQueue {
  #busy = false
  readonly #waiting: (() => void)[] = []

  /** Whether a job runs or waits. */
  get busy(): boolean {
    return this.#busy
  }

  /** Runs `job` when all earlier ones have ended. Aborted while it waits, it rejects at once and never runs. */
  run<T>(job: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    if (signal?.aborted) return Promise.reject(signal.reason as Error)
    if (!this.#busy) return this.#start(job)
    return new Promise<T>((resolve, reject) => {
      const begin = () => {
        signal?.removeEventListener('abort', cancel)
        this.#start(job).then(resolve, reject)
      }
      const cancel = () => {
        this.#waiting.splice(this.#waiting.indexOf(begin), 1)
        reject(signal?.reason as Error)
      }
      this.#waiting.push(begin)
      signal?.addEventListener('abort', cancel, { once: true })
    })
  }

  async #start<T>(job: () => Promise<T>): Promise<T> {
    this.#busy = true
    try {
      return await job()
    } finally {
      this.#busy = false
      this.#waiting.shift()?.()
    }
  }
}
