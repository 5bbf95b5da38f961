import { NonFiniteError } from '@selfplay/engine'
import type { SampledSequence } from '@selfplay/engine'
import { TokenStream } from './random.js'
import type { Task } from './request.js'
import type { StopFinder } from './stop.js'
import type { DrawKind } from './tail.js'

const FIRST_CAPACITY = 64

/** One completion while it grows. */
export class Completion {
  readonly group: Group
  readonly index: number
  readonly stream: TokenStream
  #tokens: Int32Array
  #logprobs: Float32Array
  #keptMass: Float32Array
  #count = 0

  constructor(group: Group, index: number, seed: number) {
    this.group = group
    this.index = index
    this.stream = new TokenStream(seed, index)
    const capacity = Math.min(group.task.maxTokens, FIRST_CAPACITY)
    this.#tokens = new Int32Array(capacity)
    this.#logprobs = new Float32Array(capacity)
    this.#keptMass = new Float32Array(capacity)
  }

  /**
   * Adds a token; the reason to stop once there is one.
   *
   * @throws NonFiniteError when the log-prob is NaN or infinite.
   */
  push(
    token: number,
    logprob: number,
    keptMass: number,
    finder: StopFinder | undefined,
  ): 'stop' | 'length' | undefined {
    const { task } = this.group
    if (!Number.isFinite(logprob) || !Number.isFinite(keptMass)) throw this.#notFinite(logprob)
    if (this.#count === this.#tokens.length) this.#grow()
    this.#tokens[this.#count] = token
    this.#logprobs[this.#count] = logprob
    this.#keptMass[this.#count] = keptMass
    this.#count++
    if (task.stopIds.has(token)) return 'stop'
    if (task.stopStrings.length > 0 && finder?.completedBy(this.#tokens, this.#count, task.stopStrings)) return 'stop'
    return this.#count === task.maxTokens ? 'length' : undefined
  }

  /** Tokens that it may still draw. */
  get left(): number {
    return this.group.task.maxTokens - this.#count
  }

  result(stopReason: 'stop' | 'length'): SampledSequence {
    return {
      tokens: this.#tokens.slice(0, this.#count),
      logprobs: this.#logprobs.slice(0, this.#count),
      keptMass: this.#keptMass.slice(0, this.#count),
      stopReason,
      policyVersion: this.group.version,
    }
  }

  #grow(): void {
    const capacity = Math.min(this.group.task.maxTokens, 2 * this.#count)
    const tokens = new Int32Array(capacity)
    const logprobs = new Float32Array(capacity)
    const keptMass = new Float32Array(capacity)
    tokens.set(this.#tokens)
    logprobs.set(this.#logprobs)
    keptMass.set(this.#keptMass)
    this.#tokens = tokens
    this.#logprobs = logprobs
    this.#keptMass = keptMass
  }

  #notFinite(logprob: number): NonFiniteError {
    return new NonFiniteError(
      `completion ${this.index}: token ${this.#count} has log-prob ${logprob}: the weights or the logits are not finite`,
      { sample: this.index, position: this.#count, got: logprob },
    )
  }
}

/** The completions of one request: which have started, which are done, and the promise that waits for them. */
export class Group {
  readonly task: Task
  readonly version: number
  readonly kind: DrawKind
  readonly promise: Promise<SampledSequence[]>
  readonly #seed: number
  readonly #results: SampledSequence[] = []
  #started = 0
  #finished = 0
  #settled = false
  #resolve: (sequences: SampledSequence[]) => void = () => {}
  #reject: (reason: unknown) => void = () => {}

  constructor(task: Task, seed: number, version: number) {
    this.task = task
    this.version = version
    this.kind = task.temperature === 0 ? 'greedy' : task.topK > 0 || task.topP < 1 ? 'filtered' : 'plain'
    this.#seed = seed
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  /** Whether the promise is settled: nothing of it need run any more. */
  get settled(): boolean {
    return this.#settled
  }

  /** Whether completions wait for a row. */
  get waiting(): boolean {
    return !this.#settled && this.#started < this.task.numSamples
  }

  start(): Completion {
    return new Completion(this, this.#started++, this.#seed)
  }

  finish(completion: Completion, stopReason: 'stop' | 'length'): void {
    if (this.#settled) return
    this.#results[completion.index] = completion.result(stopReason)
    if (++this.#finished < this.task.numSamples) return
    this.#settled = true
    this.#resolve(this.#results)
  }

  fail(reason: unknown): void {
    if (this.#settled) return
    this.#settled = true
    this.#reject(reason)
  }
}
