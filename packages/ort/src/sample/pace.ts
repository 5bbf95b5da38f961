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

/** Runs of companies that are under way: their ends are seen in a turn of the event loop only. */
let inCompany = 0
/** When the event loop last had a turn that somebody here gave it. */
let turned = 0

async function giveTurn(): Promise<void> {
  await new Promise(setImmediate)
  turned = performance.now()
}

/** Gives timers and sockets a turn where work on this thread has kept them waiting for long. */
export async function giveTurnWhenDue(): Promise<void> {
  if (performance.now() - turned > TURN) await giveTurn()
}

/** What a run takes without disturbances: falls at once and rises slowly. */
class Usual {
  readonly #first: boolean
  #milliseconds: number | undefined
  #left = 0

  /** @param first whether the first run, of which nothing is known, is made on this thread. */
  constructor(first: boolean) {
    this.#first = first
  }

  add(took: number): void {
    const before = this.#milliseconds ?? took
    this.#milliseconds = took < before ? took : before + 0.05 * (took - before)
  }

  /** Whether the next run is best made on this thread, as one that takes less than so long. */
  stays(limit: number): boolean {
    const usual = this.#milliseconds
    if (usual === undefined ? this.#first : usual < limit) return true
    this.#left++
    return usual !== undefined && usual <= PROBE.within * limit && this.#left % PROBE.every === 3
  }
}

/** Runs of a loop: short ones on this thread with a turn of the event loop now and then, long ones on another thread. */
export class Pace {
  readonly #leaves: boolean
  readonly #usual = new Usual(false)
  #turn = 0

  /** @param leaves always run on another thread: where the session may be busy with somebody else's run. Default false. */
  constructor(leaves = false) {
    this.#leaves = leaves
  }

  async run(bound: BoundRun): Promise<void> {
    const stays = !this.#leaves && this.#usual.stays(SHORT)
    if (stays && performance.now() - this.#turn > (inCompany > 0 ? SHORT : TURN)) {
      await giveTurn()
      this.#turn = performance.now()
    }
    const start = performance.now()
    if (stays) bound.runSync()
    else await bound.run()
    const end = performance.now()
    if (!stays) this.#turn = end
    this.#usual.add(end - start)
  }
}

/** Longest run that blocks this thread although other cores are busy as well. Milliseconds. */
const LONG = 4

/**
 * Loops that go on side by side. This thread makes the run of one while those of others are made on other threads, so that, as long as
 * runs are short, there are no more threads than cores.
 */
export class Company {
  readonly #members = new Set<object>()
  readonly #usual = new Usual(true)
  #away = 0
  #ended = 0

  enter(member: object): void {
    this.#members.add(member)
  }

  leave(member: object): void {
    this.#members.delete(member)
  }

  get size(): number {
    return this.#members.size
  }

  /** @param threads that runs may be made on at a time, this one included. */
  async run(bound: BoundRun, threads: number): Promise<void> {
    inCompany++
    try {
      const isFull = this.#away >= Math.min(threads, this.size) - 1
      if (isFull && this.#usual.stays(LONG)) await this.#here(bound)
      else await this.#elsewhere(bound)
    } finally {
      inCompany--
    }
  }

  async #elsewhere(bound: BoundRun): Promise<void> {
    const start = performance.now()
    this.#away++
    try {
      await bound.run()
      this.#usual.add(performance.now() - start)
    } finally {
      this.#away--
      this.#ended++
    }
  }

  /**
   * Runs elsewhere take a little longer than those here, and that one has ended is only seen in a turn of the event loop. Without the wait
   * for it, its loop would make half as many. One that is overdue may have been put on this thread's core, which is then left to it.
   */
  async #here(bound: BoundRun): Promise<void> {
    const start = performance.now()
    bound.runSync()
    const end = performance.now()
    this.#usual.add(end - start)
    const ended = this.#ended
    const waits = () => this.#away > 0 && this.#ended === ended
    do await giveTurn()
    while (waits() && performance.now() - end < (end - start) / 2)
    if (waits()) await new Promise((resolve) => setTimeout(resolve, 1))
  }
}
