import type { SerialisedModel } from '../graph/index.js'
import type { ModelConfig } from '../models/config.js'
import { readsBriefly } from '../models/execution-plan.js'
import { ropeTables } from '../models/rope.js'
import type { RopeTables } from '../models/rope.js'
import type { BoundRun, Runtime, Session, Tensor } from '../runtime/index.js'
import { messageOf } from '../runtime/errors.js'
import { filteredGraph, greedyGraph, prefillGraph, stepGraph, strideGraph, strideSuffix } from './graphs.js'
import type { SamplerWeights } from './graphs.js'
import { KvCache, PromptCache } from './kv-cache.js'
import { type Company, giveTurnWhenDue, Pace } from './pace.js'
import { Scorer } from './scorer.js'
import type { SessionFactory } from './sessions.js'
import type { PrefilledPrompt, StepModel, StepRows } from './step-model.js'
import { StepRunner } from './step-runner.js'
import type { Compiled, RowViews } from './step-runner.js'
import { allocateRows, candidateLevels, rowSpans, startLevel } from './step-tensors.js'
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

/**
 * Steps of a stride: it takes several times as long as a change of threads, and a row that ends within it wastes few.
 */
const STRIDE = 4

/** Single steps beside another loop before the graph of strides is compiled: about what it costs, so that short runs do without. */
const BEFORE_STRIDES = 128

/** A draw from the logits of a step, in a session of its own. */
interface Draw {
  readonly session: Session
  readonly bound: BoundRun
  readonly pace: Pace
}

/**
 * A decoder on onnxruntime. One session steps the first rows, in place on their KV cache, and draws from the whole distribution; another
 * does several such steps in one run. Greedy and filtered draws are small sessions on the logits that a step leaves of all rows, some
 * of which may be old: nobody reads what is drawn from those.
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
  /** Ascending. */
  readonly #spans: readonly number[]
  #level = 0
  #version: number | undefined
  #single: StepRunner | undefined
  #stride: StepRunner | undefined
  #besideOthers = 0
  #opening: Promise<void> | undefined
  #prefill: Compiled | undefined

  constructor(options: OrtStepModelOptions) {
    const { runtime, config, slots, contextLength } = options
    this.#options = options
    this.slots = slots
    this.vocabSize = config.vocabSize
    this.contextLength = contextLength
    this.#tensors = allocateRows(runtime, slots, config.vocabSize, STRIDE)
    this.rows = this.#tensors.rows
    this.#cache = new KvCache(runtime, config, slots, contextLength)
    this.#scorer = new Scorer(options, () => this.#rope)
    this.#levels = candidateLevels(config.vocabSize)
    this.#spans = rowSpans(slots)
  }

  async prepare(version: number): Promise<void> {
    if (this.#version !== undefined && this.#options.sessions.outdated(this.#version, version)) await this.#close()
    this.#version = version
    this.#level = 0
    this.#company?.enter(this)
    const step = async () => (this.#single ??= await this.#openSingle())
    const prefill = async () => (this.#prefill ??= await this.#compilePrefill())
    const opened = await Promise.allSettled(this.#options.sessions.light ? [step(), prefill()] : [step()])
    for (const result of opened) if (result.status === 'rejected') throw result.reason
    this.reserve(1)
  }

  async prefill(prompt: Int32Array): Promise<PrefilledPrompt> {
    const length = prompt.length - 1
    if (length === 0) return new PromptCache(0, {})
    const { runtime, config, sessions } = this.#options
    this.#prefill ??= await this.#compilePrefill()
    const { session, weights } = this.#prefill
    const feeds = {
      tokens: runtime.tensor('int32', prompt.slice(0, length), [1, length]),
      last: runtime.tensor('int32', Int32Array.of(length - 1), [1]),
      total_length: runtime.tensor('int32', Int32Array.of(length), []),
      ...this.#ropeInputs(),
      ...weights,
    }
    const cache = PromptCache.allocate(runtime, config, length)
    if (sessions.waits || !readsBriefly(config, length)) await session.run(feeds, cache.tensors)
    else {
      await giveTurnWhenDue()
      const bound = session.bind(feeds, cache.tensors)
      try {
        bound.runSync()
      } finally {
        bound.dispose()
      }
    }
    return cache
  }

  reserve(length: number): void {
    if (this.#cache.reserve(length)) this.#unbind()
  }

  load(slot: number, prompt: PrefilledPrompt): void {
    if (prompt instanceof PromptCache) this.#cache.load(slot, prompt)
  }

  move(from: number, to: number): void {
    this.#cache.move(from, to, this.rows.position[from]!)
  }

  span(used: number): number {
    return this.#spans.find((rows) => rows >= used)!
  }

  get stride(): number {
    return this.#stride && this.#isInCompany ? STRIDE : 1
  }

  rest(): void {
    this.#company?.leave(this)
  }

  async step(kind: DrawKind, { used, steps }: { readonly used: number; readonly steps: number }): Promise<void> {
    const { position } = this.rows
    const rows = this.span(used)
    let longest = 0
    for (let slot = 0; slot < rows; slot++) if (position[slot]! > longest) longest = position[slot]!
    this.#tensors.totalLength[0] = longest + 1
    if (steps > 1) return this.#stride!.run(rows)
    if (kind === 'plain' && this.#isInCompany && this.#besideOthers++ >= BEFORE_STRIDES) {
      this.#opening ??= this.#openStride()
    }
    await this.#single!.run(rows)
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

  async #openSingle(): Promise<StepRunner> {
    const { config, sessions } = this.#options
    const compiled = await this.#compile('step', (weights) => stepGraph(config, weights))
    return new StepRunner(compiled, new Pace(sessions.waits), (rows) => this.#views(rows, 1))
  }

  get #company(): Company | undefined {
    return this.#options.sessions.company
  }

  get #isInCompany(): boolean {
    return (this.#company?.size ?? 0) > 1
  }

  /** Compiled while single steps go on, which are enough where it cannot be. */
  async #openStride(): Promise<void> {
    const { config, runtime } = this.#options
    try {
      const compiled = await this.#compile('stride', (weights) => strideGraph(config, weights, STRIDE))
      const pace = { run: (bound: BoundRun) => this.#company!.run(bound, runtime.threads) }
      this.#stride = new StepRunner(compiled, pace, (rows) => this.#views(rows, STRIDE))
    } catch (error) {
      process.emitWarning(`sampling goes on in single steps, which take longer beside others: ${messageOf(error)}`)
    }
  }

  #compilePrefill(): Promise<Compiled> {
    return this.#compile('prefill', (weights) => prefillGraph(this.#options.config, weights))
  }

  async #compile(name: string, build: (weights: SamplerWeights) => SerialisedModel): Promise<Compiled> {
    const { sessions } = this.#options
    const model = sessions.graph(name, build)
    return { session: await sessions.create(model, this.#version ?? 0), weights: sessions.inputs(model) }
  }

  /** Tensors of the first rows for so many steps in one run: the caches of all steps are one and the same. */
  #views(rows: number, steps: number): RowViews {
    const own = this.#tensors.views(rows, steps)
    const cache = this.#cache.bindings(rows)
    const outputs: Record<string, Tensor> = { ...own.outputs, ...cache.outputs }
    for (let step = 0; step < steps - 1; step++) {
      for (const [name, tensor] of Object.entries(cache.outputs)) outputs[name + strideSuffix(step)] = tensor
    }
    return { inputs: { ...own.inputs, ...cache.inputs, ...this.#ropeInputs() }, outputs }
  }

  #unbind(): void {
    this.#single?.unbind()
    this.#stride?.unbind()
  }

  async #close(): Promise<void> {
    await this.#opening
    await Promise.all([this.#single?.dispose(), this.#stride?.dispose(), this.#prefill?.session.dispose()])
    this.#single = undefined
    this.#opening = undefined
    this.#stride = undefined
    this.#besideOthers = 0
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
    const made = {
      session,
      bound: session.bind(pick(model.inputs), pick(model.outputs)),
      pace: new Pace(this.#options.sessions.waits),
    }
    this.#draws.set(name, made)
    return made
  }
}
