import type { BoundRun } from '../runtime/index.js'

/**
 * Runs shorter than it are made on the calling thread: leaving it and coming back takes 0.1 ms where the machine is idle, several times
 * that where it is busy. Longer ones leave this thread, so that several samplers run side by side. Milliseconds.
 */
const SHORT = 0.5
/** Of runs that seem longer, but less than this many times, one in so many is tried on this thread: how long the change took is unknown. */
const PROBE = { within: 4, every: 32 } as const
/** Longest time without a turn for timers and sockets. Milliseconds. */
const TURN = 8

/** Runs of a loop: short ones on this thread with a turn of the event loop now and then, long ones on another thread. */
export class Pace {
  readonly #leaves: boolean
  /** What a run takes without disturbances: falls at once and rises slowly. */
  #usual = Infinity
  #left = 0
  #turn = 0

  /** @param leaves always run on another thread: where the session may be busy with somebody else's run. Default false. */
  constructor(leaves = false) {
    this.#leaves = leaves
  }

  async run(bound: BoundRun): Promise<void> {
    const stays = !this.#leaves && (this.#usual < SHORT || this.#probes())
    if (stays && performance.now() - this.#turn > TURN) {
      await new Promise(setImmediate)
      this.#turn = performance.now()
    }
    const start = performance.now()
    if (stays) bound.runSync()
    else {
      this.#left++
      await bound.run()
    }
    const end = performance.now()
    if (!stays) this.#turn = end
    const took = end - start
    this.#usual = took < this.#usual ? took : this.#usual + 0.05 * (took - this.#usual)
  }

  #probes(): boolean {
    if (this.#usual > PROBE.within * SHORT || this.#left % PROBE.every !== 2) return false
    this.#left++
    return true
  }
}

/** Longest run that blocks this thread although another core is busy as well. Milliseconds. */
const LONG = 4

/**
 * Runs of several loops that go on side by side: this thread makes one while others are made on other threads, so that there are no more
 * threads than cores.
 */
export class SharedPace {
  #away = 0
  #ended = 0
  #usual = 0

  /** @param elsewhere how many runs may be made on other threads at a time. */
  async run(bound: BoundRun, elsewhere: number): Promise<void> {
    if (this.#away < elsewhere || this.#usual > LONG) {
      this.#away++
      try {
        await bound.run()
      } finally {
        this.#away--
        this.#ended++
      }
      return
    }
    const start = performance.now()
    bound.runSync()
    const took = performance.now() - start
    this.#usual = this.#usual === 0 ? took : this.#usual + 0.05 * (took - this.#usual)
    await this.#turnUntilEnd(took)
  }

  /**
   * Runs elsewhere take a little longer than those here, and that one has ended is only seen in a turn of the event loop. Without the wait
   * for it, its loop would make half as many. One that is overdue may have been put on this thread's core, which is then left to it.
   */
  async #turnUntilEnd(usual: number): Promise<void> {
    const ended = this.#ended
    const start = performance.now()
    const waits = () => this.#away > 0 && this.#ended === ended
    do await new Promise(setImmediate)
    while (waits() && performance.now() - start < usual / 2)
    if (waits()) await new Promise((resolve) => setTimeout(resolve, 1))
  }
}
