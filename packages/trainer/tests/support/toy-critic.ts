import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import {
  CheckpointError,
  DisposedError,
  NonFiniteError,
  checkValueInputs,
  type ActorCriticClient,
  type CallOptions,
  type CriticClient,
  type ModelInfo,
  type OptimStepOptions,
  type OptimStepResult,
  type ValueLoss,
  type ValueResult,
} from '@selfplay/engine'
import { ToyClient, ToyTokenizer, type ToyOptions } from './toy-client.js'

/** Adam on one flat vector. */
class Adam {
  step = 0
  m: Float64Array
  v: Float64Array

  constructor(size: number) {
    this.m = new Float64Array(size)
    this.v = new Float64Array(size)
  }

  apply(weights: Float64Array, gradient: Float64Array, options: OptimStepOptions): number {
    const gradNorm = Math.sqrt(gradient.reduce((sum, g) => sum + g * g, 0))
    const { learningRate, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, maxGradNorm = 1 } = options
    const scale = maxGradNorm === null || gradNorm <= maxGradNorm ? 1 : maxGradNorm / gradNorm
    this.step++
    weights.forEach((w, i) => {
      const g = gradient[i]! * scale
      this.m[i] = beta1 * this.m[i]! + (1 - beta1) * g
      this.v[i] = beta2 * this.v[i]! + (1 - beta2) * g * g
      const rate = learningRate / (1 - beta1 ** this.step)
      weights[i] = w - (rate * this.m[i]!) / (Math.sqrt(this.v[i]! / (1 - beta2 ** this.step)) + epsilon)
    })
    return gradNorm
  }
}

/** A value that is linear in what a sequence contains: how often each id comes, and which is the last. Exact gradients. */
class LinearValues {
  readonly weights: Float64Array
  gradient: Float64Array | undefined
  private readonly vocabSize: number

  constructor(vocabSize: number) {
    this.vocabSize = vocabSize
    this.weights = Float64Array.from({ length: 2 * vocabSize }, (_, i) => 0.05 * Math.sin(1 + i * i))
  }

  features(ids: Int32Array): Float64Array {
    const out = new Float64Array(2 * this.vocabSize)
    for (const id of ids) out[id]! += 1 / ids.length
    out[this.vocabSize + ids.at(-1)!]! += 1
    return out
  }

  value(ids: Int32Array): number {
    return this.features(ids).reduce((sum, x, i) => sum + x * this.weights[i]!, 0)
  }

  accumulate(sequences: readonly Int32Array[], targets: Float32Array, { coef = 1, weights, clip }: ValueLoss) {
    const values = Float32Array.from(sequences, (ids) => this.value(ids))
    const gradient = new Float64Array(this.weights.length)
    let loss = 0
    sequences.forEach((ids, n) => {
      const scale = (coef * (weights?.[n] ?? 1)) / sequences.length
      const error = values[n]! - targets[n]!
      let square = error ** 2
      let slope = 2 * error
      if (clip) {
        const moved = values[n]! - clip.oldValues[n]!
        const near = clip.oldValues[n]! + Math.min(Math.max(moved, -clip.range), clip.range) - targets[n]!
        if (near ** 2 > square) {
          slope = Math.abs(moved) < clip.range ? 2 * near : 0
          square = near ** 2
        }
      }
      if (!Number.isFinite(Math.fround(square))) {
        throw new NonFiniteError(`the value loss of sequence ${n} is not finite`, { sequence: n })
      }
      loss += scale * square
      this.features(ids).forEach((x, i) => (gradient[i]! += scale * slope * x))
    })
    const sum = (this.gradient ??= new Float64Array(gradient.length))
    gradient.forEach((g, i) => (sum[i]! += g))
    return { loss, values }
  }
}

/** A critic on {@link LinearValues}: the whole contract. */
export class ToyCritic implements CriticClient {
  readonly info: ModelInfo
  readonly tokenizer: ToyTokenizer | undefined
  /** What was asked and learnt, for tests that look. */
  readonly asked: Int32Array[][] = []
  readonly lessons: { sequences: readonly Int32Array[]; targets: Float32Array; loss: ValueLoss }[] = []
  private readonly linear: LinearValues
  private readonly adam: Adam
  private disposed = false

  constructor(options: { alphabet?: string; tokenizer?: boolean; contextLength?: number } = {}) {
    const tokenizer = new ToyTokenizer(options.alphabet)
    this.tokenizer = options.tokenizer === false ? undefined : tokenizer
    const size = 2 * tokenizer.vocabSize
    this.linear = new LinearValues(tokenizer.vocabSize)
    this.adam = new Adam(size)
    this.info = {
      source: 'toy critic',
      architecture: 'linear',
      vocabSize: tokenizer.vocabSize,
      contextLength: options.contextLength ?? 64,
      eosTokenIds: [0],
      parameters: { total: size, trained: size },
      training: 'full',
    }
  }

  get step(): number {
    return this.adam.step
  }

  get weights(): Float64Array {
    return this.linear.weights
  }

  async values(sequences: readonly Int32Array[], { signal }: CallOptions = {}): Promise<Float32Array> {
    this.check(sequences, undefined, {}, signal)
    this.asked.push([...sequences])
    return Promise.resolve(Float32Array.from(sequences, (ids) => this.linear.value(ids)))
  }

  async forwardBackwardValues(
    sequences: readonly Int32Array[],
    targets: Float32Array,
    loss: ValueLoss = {},
    { signal }: CallOptions = {},
  ): Promise<ValueResult> {
    this.check(sequences, targets, loss, signal)
    this.lessons.push({ sequences, targets, loss })
    return Promise.resolve(this.linear.accumulate(sequences, targets, loss))
  }

  async optimStep(options: OptimStepOptions): Promise<OptimStepResult> {
    const { gradient } = this.linear
    this.linear.gradient = undefined
    if (!gradient) return Promise.resolve({ gradNorm: 0, skipped: true })
    return Promise.resolve({ gradNorm: this.adam.apply(this.linear.weights, gradient, options), skipped: false })
  }

  async saveState(directory: string): Promise<void> {
    await mkdir(directory, { recursive: true })
    const { step, m, v } = this.adam
    const state = { step, m: [...m], v: [...v], weights: [...this.linear.weights] }
    await writeFile(join(directory, 'critic.json'), JSON.stringify(state), 'utf8')
  }

  async loadState(directory: string): Promise<void> {
    const path = join(directory, 'critic.json')
    const text = await readFile(path, 'utf8').catch((cause: unknown) => {
      throw new CheckpointError(`no readable critic in ${directory}`, { directory }, { cause })
    })
    const state = JSON.parse(text) as { step: number; m: number[]; v: number[]; weights: number[] }
    this.linear.weights.set(state.weights)
    this.linear.gradient = undefined
    Object.assign(this.adam, { step: state.step, m: Float64Array.from(state.m), v: Float64Array.from(state.v) })
  }

  async exportModel(directory: string): Promise<void> {
    await mkdir(directory, { recursive: true })
    await writeFile(join(directory, 'critic.json'), JSON.stringify([...this.linear.weights]), 'utf8')
  }

  dispose(): Promise<void> {
    this.disposed = true
    return Promise.resolve()
  }

  private check(
    sequences: readonly Int32Array[],
    targets: Float32Array | undefined,
    loss: ValueLoss,
    signal?: AbortSignal,
  ) {
    if (this.disposed) throw new DisposedError('the toy critic was disposed')
    checkValueInputs(sequences, targets, loss, this.info)
    signal?.throwIfAborted()
  }
}

/** A toy policy that is its own critic: its step is the critic's too. */
export class ToyActorCritic extends ToyClient implements ActorCriticClient {
  readonly critic: ToyCritic

  constructor(options: ToyOptions = {}) {
    super(options)
    this.critic = new ToyCritic(options.alphabet === undefined ? {} : { alphabet: options.alphabet })
  }

  values(sequences: readonly Int32Array[], options?: CallOptions): Promise<Float32Array> {
    return this.critic.values(sequences, options)
  }

  forwardBackwardValues(
    sequences: readonly Int32Array[],
    targets: Float32Array,
    loss?: ValueLoss,
    options?: CallOptions,
  ): Promise<ValueResult> {
    return this.critic.forwardBackwardValues(sequences, targets, loss, options)
  }

  override async optimStep(options: OptimStepOptions): Promise<OptimStepResult> {
    const ofValues = await this.critic.optimStep(options)
    const ofPolicy = await super.optimStep(options)
    if (ofPolicy.skipped && !ofValues.skipped) this.step++
    const gradNorm = Math.hypot(ofPolicy.gradNorm, ofValues.gradNorm)
    return { gradNorm, skipped: ofPolicy.skipped && ofValues.skipped }
  }

  override async saveState(directory: string): Promise<void> {
    await super.saveState(directory)
    await this.critic.saveState(directory)
  }

  override async loadState(directory: string): Promise<void> {
    await super.loadState(directory)
    await this.critic.loadState(directory)
  }
}
