import { DisposedError, InvalidInputError, SelfplayError } from '@selfplay/engine'
import type { CallOptions, SampledSequence, SampleRequest, SamplingClient } from '@selfplay/engine'
import { AbortListeners } from './abort-listeners.js'
import { Group } from './group.js'
import type { Completion } from './group.js'
import { LiveSampler, staleError } from './live-sampler.js'
import { PromptStore } from './prompts.js'
import { derivedSeed } from './random.js'
import { checkIds, checkRequest } from './request.js'
import { Rows } from './rows.js'
import type { StepModel } from './step-model.js'
import { StopFinder } from './stop.js'
import type { Decode } from './stop.js'
import type { DrawKind } from './tail.js'

export interface EngineOptions {
  /** Seeds the requests that bring no seed: the n-th of them gets the n-th number that follows. Default 0. */
  readonly seed?: number
  /** What ends a completion when a request has no `stop`: typically the model's end-of-sequence ids. Default: nothing. */
  readonly stop?: readonly (number | string)[]
  /** Text of token ids; needed by stop strings. */
  readonly decode?: Decode
  /** Number of optimiser steps behind the weights, asked before each step. Default: always 0. */
  readonly version?: () => number
}

/** What an engine has done so far. */
export interface EngineCounts {
  /** Steps of all rows together. */
  readonly steps: number
  /** Tokens drawn in rows that were in use. */
  readonly tokens: number
  /** Prompts run. */
  readonly prefills: number
}

/** A run of steps that failed outside any typed error. */
export class SamplingError extends SelfplayError {
  constructor(cause: unknown) {
    const message = cause instanceof Error ? cause.message : String(cause)
    super(
      'sampling_failed',
      `sampling failed: ${message}; requests in flight were rejected, later ones may be sent`,
      {},
      { cause },
    )
  }
}

/**
 * Serves any number of requests from S rows that advance together.
 *
 * Each completion owns a row until it ends; the row then goes to the next completion in order of arrival. What is drawn for a
 * completion depends on the weights, its prompt and options, its random stream (seed, index) and on S, never on its neighbours,
 * its row or its time. Greedy rows, rows with filters (topK, topP) and plain rows are not mixed: a change of kind waits until the
 * rows in use have ended.
 */
export class GenerationEngine {
  readonly #model: StepModel
  readonly #seed: number
  readonly #stop: readonly (number | string)[]
  readonly #finder: StopFinder | undefined
  readonly #version: () => number
  readonly #rows: Rows
  readonly #queue: Group[] = []
  readonly #open = new Set<Group>()
  readonly #prompts = new PromptStore()
  readonly #aborts = new AbortListeners()
  #kind: DrawKind = 'plain'
  #requests = 0
  #steps = 0
  #tokens = 0
  #prefills = 0
  #loop: Promise<void> | undefined
  #seenVersion: number | undefined
  #disposed: Promise<void> | undefined

  constructor(model: StepModel, options: EngineOptions = {}) {
    this.#model = model
    this.#seed = options.seed ?? 0
    if (!Number.isSafeInteger(this.#seed)) {
      throw new InvalidInputError(`engine: seed is ${this.#seed}, expected a whole number below 2^53`, {
        field: 'seed',
      })
    }
    this.#stop = options.stop ?? []
    this.#finder = options.decode && new StopFinder(options.decode)
    this.#version = options.version ?? (() => 0)
    this.#rows = new Rows(model)
  }

  get contextLength(): number {
    return this.#model.contextLength
  }

  /** Number of optimiser steps behind the weights as they are now. */
  get version(): number {
    return this.#version()
  }

  get counts(): EngineCounts {
    return { steps: this.#steps, tokens: this.#tokens, prefills: this.#prefills }
  }

  /**
   * A client of the weights as they are now, without a copy: once `version()` moves, its calls reject with StaleSamplerError,
   * those in flight too, because their later tokens would come from other weights than their first. Disposing it rejects its own
   * requests and leaves the engine as it is.
   */
  sampler(): SamplingClient {
    return new LiveSampler(this, this.#version())
  }

  /** See `SamplingClient.sample`. `version` is the one that the caller means. */
  sample(request: SampleRequest, options: CallOptions = {}, version = this.#version()): Promise<SampledSequence[]> {
    return this.#guarded(version, options.signal, async () => {
      const task = checkRequest(request, {
        vocabSize: this.#model.vocabSize,
        contextLength: this.#model.contextLength,
        defaultStop: this.#stop,
        canDecode: this.#finder !== undefined,
      })
      const seed = task.seed ?? derivedSeed(this.#seed, this.#requests++)
      const group = new Group(task, seed, version)
      this.#queue.push(group)
      this.#open.add(group)
      this.#prompts.retain(group)
      const unlisten = this.#aborts.add(options.signal, (reason) => group.fail(reason))
      this.#start()
      try {
        return await group.promise
      } finally {
        unlisten()
        this.#open.delete(group)
        this.#prompts.release(group)
      }
    })
  }

  /** See `SamplingClient.logprobs`. */
  logprobs(
    tokens: Int32Array,
    options: CallOptions & { readonly temperature?: number } = {},
    version = this.#version(),
  ): Promise<Float32Array> {
    return this.#guarded(version, options.signal, async () => {
      const { temperature = 1 } = options
      if (!(temperature >= 1e-6 && Number.isFinite(temperature))) {
        throw new InvalidInputError(
          `logprobs: temperature is ${temperature}: expected a finite number of at least 1e-6`,
          {
            field: 'temperature',
            got: temperature,
          },
        )
      }
      checkIds({ call: 'logprobs', field: 'tokens' }, tokens, this.#model.vocabSize)
      if (tokens.length > this.#model.contextLength) {
        throw new InvalidInputError(
          `logprobs: ${tokens.length} tokens do not fit the context of ${this.#model.contextLength}`,
          { length: tokens.length, contextLength: this.#model.contextLength },
        )
      }
      if (tokens.length === 1) return new Float32Array(0)
      const scored = this.#model.score(Int32Array.from(tokens), 1 / temperature, version, options.signal)
      await scored.catch(() => {})
      options.signal?.throwIfAborted()
      this.#refuseStale(version)
      return scored
    })
  }

  /** Gives back sessions and cache once nothing is in flight; the next request makes them anew. */
  release(): Promise<void> {
    return this.#alone(() => this.#model.release())
  }

  /** The same at once if nothing is in flight; else nothing happens. */
  async releaseIfIdle(): Promise<void> {
    if (!this.#loop && this.#open.size === 0 && !this.#disposed) await this.release()
  }

  /** Rejects what is pending with DisposedError and frees everything. */
  dispose(): Promise<void> {
    this.#disposed ??= this.#end()
    return this.#disposed
  }

  async #end(): Promise<void> {
    this.#failAll(new DisposedError('the sampling engine was disposed while the request was in flight'))
    await this.#alone(() => this.#model.dispose())
  }

  /** Does something with the model once nothing else uses it. */
  async #alone(work: () => Promise<void>): Promise<void> {
    while (this.#loop) await this.#loop
    // Nothing may be awaited in between: a request that came then would have started a run.
    await this.#exclusively(work)
  }

  async #guarded<T>(version: number, signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
    if (this.#disposed) throw new DisposedError('the sampling engine is disposed: make a new one')
    signal?.throwIfAborted()
    this.#refuseStale(version)
    return work()
  }

  #refuseStale(version: number): void {
    const now = this.#version()
    if (version !== now) throw staleError(version, now)
  }

  #failAll(reason: unknown): void {
    for (const group of this.#open) group.fail(reason)
    this.#queue.length = 0
  }

  #start(): void {
    if (!this.#loop) void this.#exclusively(() => this.#run())
  }

  /** One user of the model at a time; requests that came meanwhile start after it. */
  #exclusively(work: () => Promise<void>): Promise<void> {
    this.#loop = work().finally(() => {
      this.#loop = undefined
      if (this.#queue.length > 0) this.#start()
    })
    return this.#loop
  }

  /** Steps until nothing is left to do. Never rejects: failures go to the requests. */
  async #run(): Promise<void> {
    try {
      await Promise.resolve() // requests sent in the same turn start together
      this.#seenVersion = undefined
      await this.#model.prepare(this.#version())
      for (;;) {
        this.#dropSettled()
        await this.#admit()
        if (this.#rows.active === 0) return
        const used = this.#rows.closeRanks()
        const steps = this.#kind === 'plain' ? this.#rows.stride : 1
        this.#rows.feed(steps)
        await this.#model.step(this.#kind, { used, steps })
        this.#dropSettled() // before results of other weights are taken for these
        this.#steps += steps
        this.#collect(steps)
      }
    } catch (error) {
      this.#failAll(error instanceof SelfplayError ? error : new SamplingError(error))
      this.#rows.freeAll()
    } finally {
      this.#model.rest()
    }
  }

  /** Rows whose request was aborted, failed or outlived its weights leave. */
  #dropSettled(): void {
    const now = this.#version()
    if (now !== this.#seenVersion) {
      this.#seenVersion = now
      for (const group of this.#open) if (group.version !== now) group.fail(staleError(group.version, now))
    }
    this.#rows.freeSettled()
  }

  /** Free rows go to waiting completions, first come first served, as long as they are of the kind that runs. */
  async #admit(): Promise<void> {
    while (this.#rows.active < this.#model.slots) {
      const group = this.#nextGroup()
      if (!group || (this.#rows.active > 0 && group.kind !== this.#kind)) return
      const prefilled = await this.#prompts.get(group, (prompt) => {
        this.#prefills++
        return this.#model.prefill(prompt)
      })
      if (!prefilled || !group.waiting) continue // aborted meanwhile
      this.#kind = group.kind
      this.#rows.occupy(group.start(), prefilled)
      if (!group.waiting) this.#prompts.release(group)
    }
  }

  #nextGroup(): Group | undefined {
    while (this.#queue.length > 0 && !this.#queue[0]?.waiting) this.#queue.shift()
    return this.#queue[0]
  }

  #collect(steps: number): void {
    for (let slot = 0; slot < this.#model.slots; slot++) {
      const completion = this.#rows.owner(slot)
      if (!completion || completion.group.settled) continue
      for (let n = 0; n < steps && this.#rows.owner(slot); n++) {
        this.#take(completion, slot, slot * steps + n)
      }
    }
  }

  /** What a row drew: it stands at `at`. */
  #take(completion: Completion, slot: number, at: number): void {
    const { rows } = this.#model
    this.#tokens++
    const token = rows.drawn[at] ?? 0
    const keptMass = this.#kind === 'filtered' ? (rows.keptMass[slot] ?? NaN) : 1
    const reason = this.#push(completion, token, Math.log(rows.probability[at] ?? NaN), keptMass)
    if (!reason) return this.#rows.advance(slot, token)
    this.#rows.free(slot)
    if (reason !== 'failed') completion.group.finish(completion, reason)
  }

  #push(
    completion: Completion,
    token: number,
    logprob: number,
    keptMass: number,
  ): 'stop' | 'length' | 'failed' | undefined {
    try {
      return completion.push(token, logprob, keptMass, this.#finder)
    } catch (error) {
      completion.group.fail(error)
      return 'failed'
    }
  }
}
