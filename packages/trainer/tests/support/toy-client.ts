import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import {
  CheckpointError,
  ContextOverflowError,
  DisposedError,
  InvalidInputError,
  NonFiniteError,
  StaleSamplerError,
  checkCustomResult,
  checkDatums,
  checkExport,
  checkLoss,
  type CallOptions,
  type Datum,
  type ExportOptions,
  type ForwardResult,
  type Loss,
  type ModelInfo,
  type OptimStepOptions,
  type OptimStepResult,
  type SampleRequest,
  type SampledSequence,
  type SamplingClient,
  type TrainingClient,
} from '@selfplay/engine'
import { referenceLoss } from '@selfplay/engine/testing'
import { Random, deriveSeed } from '@selfplay/env'

/** Characters to ids and back; id 0 ends a text and reads as `<eos>`, so a forgotten one shows. */
export class ToyTokenizer {
  readonly alphabet: string

  constructor(alphabet = 'abcdefgh ') {
    this.alphabet = alphabet
  }

  get vocabSize(): number {
    return this.alphabet.length + 1
  }

  encode(text: string): number[] {
    return Array.from(text, (character) => 1 + (Math.max(this.alphabet.indexOf(character), 0) % this.alphabet.length))
  }

  decode(ids: readonly number[] | Int32Array): string {
    return Array.from(ids, (id) => (id === 0 ? '<eos>' : (this.alphabet[id - 1] ?? ''))).join('')
  }
}

export interface ToyOptions {
  readonly alphabet?: string
  readonly contextLength?: number
  /** Added to the logit of the end token after every token. Default 0. */
  readonly eosBias?: number
  /** Seeds the initial weights (normal-ish noise of size 0.1). */
  readonly seed?: number
  readonly source?: string
}

interface Weights {
  readonly values: Float64Array
}

const logSoftmax = (logits: Float64Array): Float64Array => {
  const max = logits.reduce((a, b) => Math.max(a, b), -Infinity)
  const total = logits.reduce((sum, x) => sum + Math.exp(x - max), 0)
  return logits.map((x) => x - max - Math.log(total))
}

/** A bigram policy: the logits of the next token are one row of a table. Exact gradients, whole contract. */
export class ToyClient implements TrainingClient {
  readonly info: ModelInfo
  readonly tokenizer: ToyTokenizer
  step = 0
  /** What was called, for tests that count. */
  readonly calls = { forward: 0, forwardBackward: 0, optimStep: 0, sample: 0, logprobs: 0, concurrent: 0 }
  /** Tests set it to look at or change what is trained on. */
  onForwardBackward: ((data: readonly Datum[], loss: Loss) => void) | undefined
  /** Tests set it to delay or fail sampling. */
  onSample: ((request: SampleRequest, signal: AbortSignal | undefined) => Promise<void> | void) | undefined
  weights: Float64Array
  private moments: [Float64Array, Float64Array]
  private gradient: Float64Array | undefined
  private running = 0
  private disposed = false
  private readonly vocabSize: number

  constructor(options: ToyOptions = {}) {
    this.tokenizer = new ToyTokenizer(options.alphabet)
    const V = (this.vocabSize = this.tokenizer.vocabSize)
    const random = new Random(options.seed ?? 0)
    this.weights = Float64Array.from({ length: V * V }, (_, i) => {
      const noise = 0.1 * (random.float() + random.float() + random.float() - 1.5)
      return noise + (i % V === 0 ? (options.eosBias ?? 0) : 0)
    })
    this.moments = [new Float64Array(V * V), new Float64Array(V * V)]
    this.info = {
      source: options.source ?? 'toy',
      architecture: 'bigram',
      vocabSize: V,
      contextLength: options.contextLength ?? 64,
      eosTokenIds: [0],
      parameters: { total: V * V, trained: V * V },
      training: 'full',
    }
  }

  forward(data: readonly Datum[], loss: Loss, options: CallOptions = {}): Promise<ForwardResult> {
    this.calls.forward++
    return this.evaluate(data, loss, options).then(({ result }) => result)
  }

  async forwardBackward(data: readonly Datum[], loss: Loss, options: CallOptions = {}): Promise<ForwardResult> {
    this.calls.forwardBackward++
    this.onForwardBackward?.(data, loss)
    const { result, gradient } = await this.evaluate(data, loss, options)
    const sum = (this.gradient ??= new Float64Array(gradient.length))
    gradient.forEach((g, i) => (sum[i] = sum[i]! + g))
    return result
  }

  private async evaluate(data: readonly Datum[], loss: Loss, { signal }: CallOptions) {
    this.check()
    checkLoss(loss)
    checkDatums(data, { vocabSize: this.vocabSize, contextLength: this.info.contextLength })
    if (
      loss.name !== 'cross_entropy' &&
      loss.name !== 'custom' &&
      data.some((d) => !d.advantages || !d.samplerLogprobs)
    ) {
      throw new InvalidInputError(`${loss.name} needs advantages and samplerLogprobs in every datum`)
    }
    await Promise.resolve()
    signal?.throwIfAborted()
    const V = this.vocabSize
    let entropy = 0
    let trained = 0
    const rows = data.map(({ tokens, temperature = 1, weights }) =>
      Array.from(tokens, (token, t) => {
        if (weights?.[t] === 0) return undefined
        const row = logSoftmax(this.weights.slice(token * V, token * V + V).map((x) => x / temperature))
        entropy -= row.reduce((sum, lp) => sum + Math.exp(lp) * lp, 0)
        trained++
        return row
      }),
    )
    const logprobs = data.map((datum, d) => Float32Array.from(datum.targets, (id, t) => rows[d]![t]?.[id] ?? 0))
    const { loss: value, gradient: byLogprob } =
      loss.name === 'custom' ? checkCustomResult(loss.compute(logprobs), data) : referenceLoss(loss, data, logprobs)
    data.forEach((_, d) => {
      const bad = byLogprob[d]!.findIndex((x, t) => rows[d]![t] !== undefined && !Number.isFinite(x))
      if (bad >= 0) throw new NonFiniteError(`datum ${d}: the loss is not finite`, { datum: d, position: bad })
    })
    const gradient = new Float64Array(V * V)
    data.forEach((datum, d) =>
      datum.targets.forEach((target, t) => {
        const row = rows[d]![t]
        if (!row) return
        const scale = byLogprob[d]![t]! / (datum.temperature ?? 1)
        const base = datum.tokens[t]! * V
        row.forEach((lp, v) => (gradient[base + v]! += scale * ((v === target ? 1 : 0) - Math.exp(lp))))
      }),
    )
    const metrics = { entropy: trained ? entropy / trained : 0, tokens: trained }
    return { result: { loss: value, logprobs, metrics } satisfies ForwardResult, gradient }
  }

  async optimStep(options: OptimStepOptions): Promise<OptimStepResult> {
    this.check()
    this.calls.optimStep++
    const { gradient } = this
    this.gradient = undefined
    if (!gradient) return { gradNorm: 0, skipped: true }
    const gradNorm = Math.sqrt(gradient.reduce((sum, g) => sum + g * g, 0))
    if (!Number.isFinite(gradNorm)) throw new NonFiniteError('the gradient norm is not finite')
    const { learningRate, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weightDecay = 0, maxGradNorm = 1 } = options
    const scale = maxGradNorm === null || gradNorm <= maxGradNorm ? 1 : maxGradNorm / gradNorm
    this.step++
    const [m, v] = this.moments
    const next = this.weights.map((w, i) => {
      const g = gradient[i]! * scale
      m[i] = beta1 * m[i]! + (1 - beta1) * g
      v[i] = beta2 * v[i]! + (1 - beta2) * g * g
      const update = m[i]! / (1 - beta1 ** this.step) / (Math.sqrt(v[i]! / (1 - beta2 ** this.step)) + epsilon)
      return w - learningRate * (update + weightDecay * w)
    })
    this.weights = next
    return { gradNorm, skipped: false }
  }

  async sampler({ signal }: CallOptions = {}): Promise<SamplingClient> {
    this.check()
    signal?.throwIfAborted()
    const at = this.step
    return new ToySampler(this, () => {
      this.check()
      if (this.step !== at) throw new StaleSamplerError('the weights have changed since this sampler was made')
      return { values: this.weights }
    })
  }

  snapshot(): Promise<SamplingClient> {
    this.check()
    const frozen = { values: this.weights.slice() }
    return Promise.resolve(new ToySampler(this, () => frozen))
  }

  async saveState(directory: string): Promise<void> {
    this.check()
    const { source } = this.info
    const text = JSON.stringify({
      source,
      step: this.step,
      weights: [...this.weights],
      moments: this.moments.map((x) => [...x]),
    })
    await mkdir(dirname(directory), { recursive: true })
    await rm(`${directory}.tmp`, { recursive: true, force: true })
    await mkdir(`${directory}.tmp`)
    await writeFile(join(`${directory}.tmp`, 'state.json'), text, 'utf8')
    await rename(`${directory}.tmp`, directory)
  }

  async loadState(directory: string): Promise<void> {
    this.check()
    let state: { source: string; step: number; weights: number[]; moments: number[][] }
    try {
      state = JSON.parse(await readFile(join(directory, 'state.json'), 'utf8')) as typeof state
    } catch (cause) {
      throw new CheckpointError(`no readable state in ${directory}`, { directory }, { cause })
    }
    if (state.weights.length !== this.weights.length) throw new CheckpointError('the state is of another model')
    this.step = state.step
    this.weights = Float64Array.from(state.weights)
    this.moments = [Float64Array.from(state.moments[0]!), Float64Array.from(state.moments[1]!)]
    this.gradient = undefined
  }

  async exportModel(directory: string, options: CallOptions & ExportOptions = {}): Promise<void> {
    this.check()
    checkExport(options)
    await mkdir(directory, { recursive: true })
    await writeFile(join(directory, 'model.json'), JSON.stringify([...this.weights]), 'utf8')
  }

  dispose(): Promise<void> {
    this.disposed = true
    return Promise.resolve()
  }

  /** For the samplers: counts how many calls run at the same time. */
  async track<T>(call: () => Promise<T>): Promise<T> {
    this.running++
    this.calls.concurrent = Math.max(this.calls.concurrent, this.running)
    try {
      return await call()
    } finally {
      this.running--
    }
  }

  private check(): void {
    if (this.disposed) throw new DisposedError('the toy client was disposed')
  }
}

class ToySampler implements SamplingClient {
  readonly policyVersion: number
  readonly contextLength: number
  private readonly client: ToyClient
  private readonly weights: () => Weights
  private disposed = false
  private draws = 0

  constructor(client: ToyClient, weights: () => Weights) {
    this.client = client
    this.weights = weights
    this.policyVersion = client.step
    this.contextLength = client.info.contextLength
  }

  async sample(request: SampleRequest, { signal }: CallOptions = {}): Promise<SampledSequence[]> {
    this.client.calls.sample++
    if (this.disposed) throw new DisposedError('the toy sampler was disposed')
    const { prompt, maxTokens, numSamples = 1 } = request
    if (prompt.length === 0) throw new InvalidInputError('expected a prompt of at least one token, got none')
    if (!(Number.isInteger(maxTokens) && maxTokens > 0)) {
      throw new InvalidInputError(`expected maxTokens to be a positive integer, got ${maxTokens}`)
    }
    if (prompt.length >= this.contextLength) throw new ContextOverflowError('the prompt fills the context')
    return this.client.track(async () => {
      await this.client.onSample?.(request, signal)
      await Promise.resolve()
      signal?.throwIfAborted()
      const { values } = this.weights()
      const seed = request.seed ?? deriveSeed(1, 'toy', this.draws++)
      return Array.from({ length: numSamples }, (_, i) => this.draw(values, request, new Random(deriveSeed(seed, i))))
    })
  }

  private draw(values: Float64Array, request: SampleRequest, random: Random): SampledSequence {
    const { prompt, maxTokens, temperature = 1, topK, topP = 1, stop = [0] } = request
    const V = this.client.info.vocabSize
    const limit = Math.min(maxTokens, this.contextLength - prompt.length)
    const tokens: number[] = []
    const logprobs: number[] = []
    const keptMass: number[] = []
    let stopReason: 'stop' | 'length' = 'length'
    while (tokens.length < limit) {
      const last = tokens.at(-1) ?? prompt.at(-1)!
      const row = logSoftmax(values.slice(last * V, last * V + V).map((x) => x / (temperature || 1)))
      const ranked = Array.from(row, (lp, id) => ({ id, p: Math.exp(lp) })).sort((a, b) => b.p - a.p)
      let kept = temperature === 0 ? ranked.slice(0, 1) : ranked.slice(0, topK ?? V)
      const total = kept.reduce((sum, { p }) => sum + p, 0)
      let mass = 0
      const cut = kept.findIndex(({ p }) => (mass += p) >= topP * total - 1e-12)
      if (cut >= 0) kept = kept.slice(0, cut + 1)
      const keptTotal = kept.reduce((sum, { p }) => sum + p, 0)
      let u = random.float() * keptTotal
      const { id } = kept.find(({ p }) => (u -= p) < 0) ?? kept.at(-1)!
      tokens.push(id)
      logprobs.push(row[id]!)
      keptMass.push(temperature === 0 ? 1 : keptTotal)
      const text = this.client.tokenizer.decode(tokens)
      if (stop.some((s) => (typeof s === 'number' ? s === id : text.includes(s)))) {
        stopReason = 'stop'
        break
      }
    }
    return {
      tokens: Int32Array.from(tokens),
      logprobs: Float32Array.from(logprobs),
      keptMass: Float32Array.from(keptMass),
      stopReason,
      policyVersion: this.policyVersion,
    }
  }

  async logprobs(
    tokens: Int32Array,
    options: CallOptions & { readonly temperature?: number } = {},
  ): Promise<Float32Array> {
    this.client.calls.logprobs++
    if (this.disposed) throw new DisposedError('the toy sampler was disposed')
    await Promise.resolve()
    options.signal?.throwIfAborted()
    const { values } = this.weights()
    const V = this.client.info.vocabSize
    return Float32Array.from({ length: tokens.length - 1 }, (_, t) => {
      const at = tokens[t]! * V
      return logSoftmax(values.slice(at, at + V).map((x) => x / (options.temperature ?? 1)))[tokens[t + 1]!]!
    })
  }

  dispose(): Promise<void> {
    this.disposed = true
    return Promise.resolve()
  }
}
