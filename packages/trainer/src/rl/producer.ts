import { followSignal } from '../deadline.js'

export interface ProducerOptions<Builder, Group> {
  /** The first batch to make. */
  readonly first: number
  /** One past the last. */
  readonly total: number
  /** Batch b may start once b - maxStaleness updates are finished. */
  readonly maxStaleness: number
  /** Groups made at once; null: as many as the newest batch has. */
  readonly workers: number | null
  readonly getBatch: (index: number, signal: AbortSignal) => Promise<readonly Builder[]>
  readonly makeGroup: (builder: Builder, place: Place, signal: AbortSignal) => Promise<Group>
}

export interface Place {
  readonly batch: number
  readonly group: number
}

interface OpenBatch<Group> {
  readonly groups: (Group | undefined)[]
  left: number
  readonly done: Promise<void>
  readonly finish: () => void
  readonly fail: (error: unknown) => void
}

/**
 * Makes the groups of batches ahead of the consumer, and never further ahead than the bound on staleness allows. Groups are
 * started in order; each batch is handed out whole, once, in order. Nothing is discarded: what would be too old is not begun.
 */
export class PacedProducer<Builder, Group> {
  private readonly options: ProducerOptions<Builder, Group>
  private readonly open = new Map<number, OpenBatch<Group>>()
  private readonly waiting: { readonly builder: Builder; readonly place: Place }[] = []
  private readonly running = new Set<Promise<void>>()
  private readonly stop = new AbortController()
  private readonly followed: ReturnType<typeof followSignal>
  private nextBatch: number
  private handedOut: number
  private allowed: number
  private limit = 1
  private loading = false
  private failure: { readonly error: unknown } | undefined

  constructor(options: ProducerOptions<Builder, Group>, signal: AbortSignal) {
    this.options = options
    this.nextBatch = options.first
    this.handedOut = options.first
    this.allowed = options.first + options.maxStaleness
    this.followed = followSignal(AbortSignal.any([signal, this.stop.signal]))
    this.followed.signal.addEventListener('abort', () => this.fail(this.followed.signal.reason), { once: true })
    if (this.followed.signal.aborted) this.fail(this.followed.signal.reason)
    this.pump()
  }

  /** Says that so many updates are finished, counted from the start of the run. */
  advance(updates: number): void {
    this.allowed = Math.max(this.allowed, updates + this.options.maxStaleness)
    this.pump()
  }

  /**
   * The groups of the next batch, in the order of their builders; undefined after the last.
   * @throws what a group or the data set threw; the signal's reason.
   */
  async next(): Promise<Group[] | undefined> {
    const index = this.handedOut
    if (this.failure) throw this.failure.error
    if (index >= this.options.total) return undefined
    const batch = this.batchAt(index)
    await batch.done
    this.handedOut = index + 1
    this.open.delete(index)
    return batch.groups as Group[]
  }

  /** Cancels what is under way and waits until all of it has settled. */
  async close(): Promise<void> {
    this.stop.abort(new Error('the producer was closed'))
    while (this.running.size > 0) await Promise.allSettled(this.running)
    this.followed.release()
  }

  private batchAt(index: number): OpenBatch<Group> {
    const found = this.open.get(index)
    if (found) return found
    let finish = () => {}
    let fail: (error: unknown) => void = () => {}
    const done = new Promise<void>((resolve, reject) => {
      finish = resolve
      fail = reject
    })
    done.catch(() => {}) // whoever asks for the batch hears it
    const batch: OpenBatch<Group> = { groups: [], left: 0, done, finish, fail }
    this.open.set(index, batch)
    return batch
  }

  private fail(error: unknown): void {
    this.failure ??= { error }
    this.waiting.length = 0
    for (const batch of this.open.values()) batch.fail(error)
    this.stop.abort(error)
  }

  /** Starts whatever may start. */
  private pump(): void {
    while (!this.failure && this.waiting.length > 0 && this.groupsRunning < this.limit) {
      const { builder, place } = this.waiting.shift()!
      this.track(this.make(builder, place))
    }
    const mayLoad = this.nextBatch < this.options.total && this.nextBatch <= this.allowed
    if (!this.failure && !this.loading && mayLoad && this.waiting.length === 0) {
      this.loading = true
      this.track(this.load(this.nextBatch++))
    }
  }

  private get groupsRunning(): number {
    return this.running.size - (this.loading ? 1 : 0)
  }

  private track(work: Promise<void>): void {
    const tracked: Promise<void> = work
      .catch((error: unknown) => this.fail(error))
      .then(() => {
        this.running.delete(tracked)
        this.pump()
      })
    this.running.add(tracked)
  }

  private async load(index: number): Promise<void> {
    try {
      const builders = await this.options.getBatch(index, this.followed.signal)
      const batch = this.batchAt(index)
      batch.left = builders.length
      this.limit = this.options.workers ?? Math.max(1, builders.length)
      builders.forEach((builder, group) => this.waiting.push({ builder, place: { batch: index, group } }))
      if (builders.length === 0) batch.finish()
    } finally {
      this.loading = false
    }
  }

  private async make(builder: Builder, place: Place): Promise<void> {
    const group = await this.options.makeGroup(builder, place, this.followed.signal)
    const batch = this.batchAt(place.batch)
    batch.groups[place.group] = group
    if (--batch.left === 0) batch.finish()
  }
}
