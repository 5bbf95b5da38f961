import type { SerialisedModel } from '../graph/index.js'
import type { ModelConfig } from '../models/config.js'
import { ropeTables } from '../models/rope.js'
import type { RopeTables } from '../models/rope.js'
import type { BoundRun, Runtime, Session, Tensor } from '../runtime/index.js'
import { filteredGraph, greedyGraph, prefillGraph, stepGraph } from './graphs.js'
import type { SamplerWeights } from './graphs.js'
import { KvCache, PromptCache } from './kv-cache.js'
import { Pace } from './pace.js'
import { Scorer } from './scorer.js'
import type { SessionFactory } from './sessions.js'
import type { PrefilledPrompt, StepModel, StepRows } from './step-model.js'
import { allocateRows, candidateLevels, startLevel } from './step-tensors.js'
import type { RowTensors } from './step-tensors.js'
import type { DrawKind } from './tail.js'

export interface OrtStepModelOptions {
  readonly runtime: Runtime
  readonly config: ModelConfig
  readonly sessions: SessionFactory
  readonly slots: number
  /** Longest row, in tokens. */
  readonly contextLength: number
}

/** A session, and the weights among the inputs of its graph. */
interface Compiled {
  readonly session: Session
  readonly weights: Readonly<Record<string, Tensor>>
}

/** A draw from the logits of a step, in a session of its own. */
interface Draw {
  readonly session: Session
  readonly bound: BoundRun
  readonly pace: Pace
}

/**
 * A decoder on onnxruntime. One session steps all rows, in place on their KV cache, and draws from the whole distribution; greedy and
 * filtered draws are small sessions on the logits that it leaves.
 */
export class OrtStepModel implements StepModel {
  readonly slots: number
  readonly vocabSize: number
  readonly contextLength: number
  readonly rows: StepRows
  readonly #options: OrtStepModelOptions
  readonly #tensors: RowTensors
  #ropes: RopeTables | undefined
  readonly #cache: KvCache
  readonly #scorer: Scorer
  readonly #draws = new Map<string, Draw>()
  readonly #levels: readonly number[]
  #level = 0
  #version: number | undefined
  #step: Compiled | undefined
  #prefill: Compiled | undefined
  #bound: BoundRun | undefined
  #pace: Pace

  constructor(options: OrtStepModelOptions) {
    const { runtime, config, slots, contextLength } = options
    this.#options = options
    this.#pace = new Pace(options.sessions.waits)
    this.slots = slots
    this.vocabSize = config.vocabSize
    this.contextLength = contextLength
    this.#tensors = allocateRows(runtime, slots, config.vocabSize)
    this.rows = this.#tensors.rows
    this.#cache = new KvCache(runtime, config, slots, contextLength)
    this.#scorer = new Scorer(options, () => this.#rope)
    this.#levels = candidateLevels(config.vocabSize)
  }

  async prepare(version: number): Promise<void> {
    if (this.#version !== undefined && this.#options.sessions.outdated(this.#version, version)) await this.#close()
    this.#version = version
    this.#level = 0
    const step = async () => (this.#step ??= await this.#compileStep())
    const prefill = async () => (this.#prefill ??= await this.#compilePrefill())
    await Promise.all(this.#options.sessions.light ? [step(), prefill()] : [step()])
    this.reserve(1)
  }

  async prefill(prompt: Int32Array): Promise<PrefilledPrompt> {
    const length = prompt.length - 1
    if (length === 0) return new PromptCache(0, {})
    const { runtime, config } = this.#options
    this.#prefill ??= await this.#compilePrefill()
    const { session, weights } = this.#prefill
    const feeds = {
      tokens: runtime.tensor('int32', prompt.slice(0, length), [1, length]),
      last: runtime.tensor('int32', Int32Array.of(length - 1), [1]),
      total_length: runtime.tensor('int32', Int32Array.of(length), []),
      ...this.#ropeInputs(),
      ...weights,
    }
    return new PromptCache(length, await session.run(feeds, PromptCache.outputs(config)))
  }

  reserve(length: number): void {
    if (this.#cache.reserve(length)) this.#unbind()
  }

  load(slot: number, prompt: PrefilledPrompt): void {
    if (prompt instanceof PromptCache) this.#cache.load(slot, prompt)
  }

  async step(kind: DrawKind): Promise<void> {
    const { position } = this.rows
    let longest = 0
    for (let slot = 0; slot < position.length; slot++) if (position[slot]! > longest) longest = position[slot]!
    this.#tensors.totalLength[0] = longest + 1
    this.#bound ??= this.#bind()
    await this.#pace.run(this.#bound)
    if (kind === 'greedy') {
      const draw = await this.#drawing('greedy', () => greedyGraph(this.vocabSize, this.slots))
      await draw.pace.run(draw.bound)
    } else if (kind === 'filtered') await this.#drawFiltered()
  }

  score(tokens: Int32Array, inverseTemperature: number, version: number, signal?: AbortSignal): Promise<Float32Array> {
    return this.#scorer.score(tokens, inverseTemperature, version, signal)
  }

  async release(): Promise<void> {
    await this.#scorer.release()
    await this.#close()
    for (const { session, bound } of this.#draws.values()) {
      bound.dispose() // a shared session lives on, and would keep what was bound to it
      await session.dispose()
    }
    this.#draws.clear()
    this.#cache.dispose()
    this.#options.sessions.release()
  }

  async dispose(): Promise<void> {
    await this.release()
    this.#tensors.dispose()
  }

  /** Angles of all positions: made at the first use, for a long context is a matter of many milliseconds. */
  get #rope(): RopeTables {
    this.#ropes ??= ropeTables(this.#options.config, this.contextLength)
    return this.#ropes
  }

  #ropeInputs(): Record<string, Tensor> {
    const { runtime, config } = this.#options
    const { cos, sin, positions } = this.#rope
    const dims = [positions, config.headDim / 2]
    return { rope_cos: runtime.tensor('float32', cos, dims), rope_sin: runtime.tensor('float32', sin, dims) }
  }

  #compileStep(): Promise<Compiled> {
    const { config } = this.#options
    return this.#compile(`step ${this.slots}`, (weights) => stepGraph(config, weights, this.slots))
  }

  #compilePrefill(): Promise<Compiled> {
    return this.#compile('prefill', (weights) => prefillGraph(this.#options.config, weights))
  }

  async #compile(name: string, build: (weights: SamplerWeights) => SerialisedModel): Promise<Compiled> {
    const { sessions } = this.#options
    const model = sessions.graph(name, build)
    return { session: await sessions.create(model, this.#version ?? 0), weights: sessions.inputs(model) }
  }

  #bind(): BoundRun {
    const { inputs, outputs } = this.#cache.bindings
    const { step, draw } = this.#tensors
    const compiled = this.#step!
    const draws = { token: draw.token, probability: draw.probability, logits: draw.logits }
    const feeds = { ...step.inputs, ...this.#ropeInputs(), ...compiled.weights, ...inputs }
    return compiled.session.bind(feeds, { ...draws, ...outputs })
  }

  #unbind(): void {
    this.#bound?.dispose()
    this.#bound = undefined
  }

  async #close(): Promise<void> {
    this.#unbind()
    await Promise.all([this.#step?.session.dispose(), this.#prefill?.session.dispose()])
    this.#step = undefined
    this.#prefill = undefined
  }

  /** Sorts more candidates as long as some nucleus is larger than what was sorted; the result does not depend on their number. */
  async #drawFiltered(): Promise<void> {
    const { topK } = this.rows
    const { below } = this.#tensors
    let level = startLevel(this.#levels, topK, this.#level)
    for (; ; level++) {
      const candidates = this.#levels[level]!
      const draw = await this.#drawing(`filtered ${candidates}`, () =>
        filteredGraph(this.vocabSize, this.slots, candidates),
      )
      await draw.pace.run(draw.bound)
      const short =
        level + 1 < this.#levels.length && below.some((count, slot) => topK[slot] === 0 && count >= candidates)
      if (!short) break
      this.#level = level + 1
    }
  }

  async #drawing(name: string, build: () => SerialisedModel): Promise<Draw> {
    const known = this.#draws.get(name)
    if (known) return known
    const model = this.#options.sessions.graph(`${name} ${this.slots}`, build)
    const session = await this.#options.sessions.createPlain(model)
    const { draw } = this.#tensors
    const pick = (specs: readonly { readonly name: string }[]) =>
      Object.fromEntries(specs.map((spec) => [spec.name, draw[spec.name as keyof typeof draw]]))
    const made = { session, bound: session.bind(pick(model.inputs), pick(model.outputs)), pace: new Pace() }
    this.#draws.set(name, made)
    return made
  }
}
