import type { BoundRun } from '../runtime/index.js'

/**
 * Runs shorter than it are made on the calling thread: leaving it and coming back takes about 0.1 ms, half of such a run. Longer ones
 * leave this thread, so that several samplers run side by side. Milliseconds.
 */
const SHORT = 0.3
/** Longest time without a turn for timers and sockets. Milliseconds. */
const TURN = 8

/** Runs of a loop: short ones on this thread with a turn of the event loop now and then, long ones on another thread. */
export class Pace {
  readonly #leaves: boolean
  #usual = Infinity
  #turn = 0

  /** @param leaves always run on another thread: where the session may be busy with somebody else's run. Default false. */
  constructor(leaves = false) {
    this.#leaves = leaves
  }

  async run(bound: BoundRun): Promise<void> {
    const start = performance.now()
    if (this.#usual < SHORT && !this.#leaves) {
      if (start - this.#turn > TURN) {
        await new Promise(setImmediate)
        this.#turn = performance.now()
      }
      bound.runSync()
    } else {
      await bound.run()
      this.#turn = performance.now()
    }
    const took = performance.now() - start
    this.#usual = Number.isFinite(this.#usual) ? 0.8 * this.#usual + 0.2 * took : took
  }
}
