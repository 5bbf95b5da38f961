import {
  CheckpointError,
  checkCustomResult,
  checkDatums,
  checkExport,
  checkLoss,
  checkOptimStep,
  DisposedError,
  type CallOptions,
  type Datum,
  type ExportOptions,
  type ForwardResult,
  type Loss,
  type ModelInfo,
  type OptimStepOptions,
  type OptimStepResult,
  type SamplingClient,
  type TrainingClient,
} from '@selfplay/engine'
import { openTrainingState, saveTrainingState, type StatePart, type TensorFile } from '../checkpoint/index.js'
import { isSmallModel } from '../models/execution-plan.js'
import { modelWeights } from '../models/weights.js'
import type { Tensor } from '../runtime/types.js'
import { exportAdapter, exportWhole } from './export.js'
import { checkLossInputs, type GraphLoss } from './losses.js'
import type { ModelCore } from './model-core.js'
import { companions, disposeAll, elements, parameterCount, type Companions, type Parameter } from './parameters.js'
import { preparePasses, runPasses, type PassResult } from './passes.js'
import { PolicySampler, type SamplerOptions } from './policy-sampler.js'

export interface ClientOptions {
  /** As the user named the model. */
  readonly source: string
  /** Bytes of activations that one micro-batch may take. */
  readonly activationBytes: number
  readonly sampler: SamplerOptions
}

/**
 * Trains one policy on onnxruntime: all weights of a model, or an adapter on a shared frozen base. Subclasses may add heads:
 * parameters that the policy's own passes do not touch, but that its optimiser and its states include.
 */
export class OrtTrainingClient implements TrainingClient {
  readonly info: ModelInfo
  protected readonly core: ModelCore
  protected readonly options: ClientOptions
  /** The policy's. */
  protected readonly parameters: readonly Parameter[]
  protected readonly heads: readonly Parameter[]
  #headGradients: Companions | undefined
  #sampler: PolicySampler
  #gradients: Companions | undefined
  #moments: { readonly m: Companions; readonly v: Companions } | undefined
  #step = 0
  #disposed = false
  #last: Promise<unknown> = Promise.resolve()

  /** @param parameters their weights, and those of the heads, now belong to the client. */
  constructor(
    core: ModelCore,
    parameters: readonly Parameter[],
    options: ClientOptions,
    heads: readonly Parameter[] = [],
  ) {
    this.core = core
    this.parameters = parameters
    this.options = options
    this.heads = heads
    this.#sampler = this.#newSampler()
    this.info = describe(core, parameters, heads, options.source)
    core.retain()
  }

  /** All that one optimiser step changes. */
  get #trained(): readonly Parameter[] {
    return [...this.parameters, ...this.heads]
  }

  get step(): number {
    return this.#step
  }

  prepare(loss: Loss): void {
    if (loss.name === 'custom') return
    // Not before what is under way has started: sessions of the sampler, which are needed first, are then made meanwhile.
    setImmediate(() => {
      if (!this.#disposed) preparePasses(this.core, loss, this.options).catch(() => {})
    })
  }

  forward(data: readonly Datum[], loss: Loss, options: CallOptions = {}): Promise<ForwardResult> {
    return this.inTurn(options, async () => {
      this.#check(data, loss)
      const graphLoss: GraphLoss = loss.name === 'custom' ? { name: 'cross_entropy' } : loss
      const pass = await this.#run(data, graphLoss, false, options)
      if (loss.name !== 'custom') return resultOf(pass)
      const custom = checkCustomResult(loss.compute(pass.logprobs), data)
      return { loss: custom.loss, logprobs: pass.logprobs, metrics: { ...pass.metrics, ...custom.metrics } }
    })
  }

  forwardBackward(data: readonly Datum[], loss: Loss, options: CallOptions = {}): Promise<ForwardResult> {
    return this.inTurn(options, async () => {
      this.#check(data, loss)
      if (loss.name === 'custom') return this.#customBackward(data, loss.compute, options)
      const pass = await this.#run(data, loss, true, options)
      await this.accumulate(pass.gradients)
      return resultOf(pass)
    })
  }

  /** The derivative of a user's loss becomes the weights of a cross-entropy: d(-w logp) = -w. */
  async #customBackward(
    data: readonly Datum[],
    compute: Extract<Loss, { name: 'custom' }>['compute'],
    options: CallOptions,
  ): Promise<ForwardResult> {
    const forward = await this.#run(data, { name: 'cross_entropy' }, false, options)
    const custom = checkCustomResult(compute(forward.logprobs), data)
    const weighted = data.map((datum, d) => ({
      tokens: datum.tokens,
      targets: datum.targets,
      weights: custom.gradient[d]!.map((slope, t) => (datum.weights?.[t] === 0 ? 0 : -slope)),
      temperature: datum.temperature ?? 1,
    }))
    const pass = await this.#run(weighted, { name: 'cross_entropy' }, true, options)
    await this.accumulate(pass.gradients)
    return { loss: custom.loss, logprobs: forward.logprobs, metrics: { ...forward.metrics, ...custom.metrics } }
  }

  optimStep(options: OptimStepOptions, call: CallOptions = {}): Promise<OptimStepResult> {
    return this.inTurn(call, async () => {
      const settings = checkOptimStep(options)
      const gradients = this.#gradients
      if (!gradients) return { gradNorm: 0, skipped: true }
      this.#moments ??= this.#newMoments()
      try {
        const state = { gradients: new Map([...gradients, ...this.#ofHeads()]), ...this.#moments }
        const gradNorm = await this.core.math.step(this.#trained, state, this.#step + 1, settings)
        this.#step++
        return { gradNorm, skipped: false }
      } finally {
        this.#dropGradients()
      }
    })
  }

  sampler(options: CallOptions = {}): Promise<SamplingClient> {
    return this.inTurn(options, async () => this.#sampler.live())
  }

  snapshot(options: CallOptions = {}): Promise<SamplingClient> {
    return this.inTurn(options, async () => this.#sampler.frozen(this.#step))
  }

  saveState(directory: string, options: CallOptions = {}): Promise<void> {
    return this.inTurn(options, async () => {
      const read = async (part: StatePart, name: string): Promise<Float32Array> => {
        const parameter = this.#trained.find((one) => one.name === name)!
        const moments = part === 'adam_m' ? this.#moments?.m : this.#moments?.v
        const tensor = part === 'weight' ? parameter.weight : moments?.get(name)
        return tensor ? tensor.read() : new Float32Array(elements(parameter.shape))
      }
      const state = { step: this.#step, identity: this.#identity(), parameters: this.#trained, read }
      await saveTrainingState(directory, state, options)
    })
  }

  loadState(directory: string, options: CallOptions = {}): Promise<void> {
    return this.inTurn(options, async () => {
      const state = await openTrainingState(directory, options)
      const [want, got] = [this.#identity(), state.identity].map((identity) => JSON.stringify(identity))
      if (want !== got) {
        throw new CheckpointError(`${directory}: expected the state of ${want}, got that of ${got}`, {
          path: directory,
        })
      }
      state.expect(this.#trained)
      const loaded = this.#newMoments()
      const weights = companions(this.core.runtime, this.#trained)
      try {
        for (const [part, tensors] of [
          ['weight', weights],
          ['adam_m', loaded.m],
          ['adam_v', loaded.v],
        ] as const) {
          for (const [name, tensor] of tensors)
            await fill(tensor, (into) => state.read(part, name, { ...options, into }))
        }
      } catch (error) {
        for (const tensors of [weights, loaded.m, loaded.v]) disposeAll(tensors.values())
        throw error
      }
      for (const { name, weight } of this.#trained) await weight.write(await weights.get(name)!.read())
      disposeAll(weights.values())
      await this.#adopt(loaded, state.step)
    })
  }

  async #adopt(moments: { m: Companions; v: Companions }, step: number): Promise<void> {
    this.#disposeMoments()
    this.#moments = moments
    this.#dropGradients()
    this.#step = step
    const before = this.#sampler
    this.#sampler = this.#newSampler()
    await before.dispose()
  }

  exportModel(directory: string, options: CallOptions & ExportOptions = {}): Promise<void> {
    return this.inTurn(options, async () => {
      checkExport(options)
      if (options.format === 'adapter') {
        await exportAdapter(directory, this.core, this.parameters, this.options.source, {
          ...options,
          beside: this.beside(),
        })
      } else {
        await exportWhole(directory, this.core, this.parameters, { ...options, beside: this.beside() })
      }
    })
  }

  /** Files of tensors that an export gets besides the model's own. */
  protected beside(): readonly TensorFile[] {
    return []
  }

  async dispose(): Promise<void> {
    if (this.#disposed) return
    this.#disposed = true
    await this.#last.catch(() => undefined)
    await this.#sampler.dispose()
    this.#dropGradients()
    this.#disposeMoments()
    disposeAll(this.#trained.map(({ weight }) => weight))
    await this.core.release()
  }

  /** Runs calls one after another, in call order. */
  protected inTurn<T>({ signal }: CallOptions, call: () => Promise<T>): Promise<T> {
    const turn = this.#last
      .catch(() => undefined)
      .then(() => {
        if (this.#disposed) throw new DisposedError('this training client was disposed: load a new one')
        signal?.throwIfAborted()
        return call()
      })
    this.#last = turn
    return turn
  }

  #check(data: readonly Datum[], loss: Loss): void {
    const { vocabSize } = this.core.config
    checkLoss(loss)
    checkDatums(data, { vocabSize, contextLength: this.core.contextLength })
    checkLossInputs(data, loss)
  }

  async #run(
    data: readonly Datum[],
    loss: GraphLoss,
    gradients: boolean,
    { signal }: CallOptions,
  ): Promise<PassResult> {
    const { activationBytes } = this.options
    if (gradients) await this.core.makeRoom()
    return runPasses(this.core, this.parameters, data, loss, {
      gradients,
      activationBytes,
      ...(signal && { signal }),
    })
  }

  /**
   * Adds gradients of the policy's parameters, in buffers of the core's, and of the heads, in their own. The client has them
   * from here on.
   */
  protected async accumulate(gradients: Companions | undefined, ofHeads?: Companions): Promise<void> {
    if (gradients && this.#gradients) {
      await this.core.math.add(this.#gradients, gradients)
      this.core.giveGradients(gradients)
    } else if (gradients) this.#gradients = gradients
    if (!ofHeads) return
    await this.core.math.add(this.#ofHeads(), ofHeads)
    disposeAll(ofHeads.values())
  }

  #ofHeads(): Companions {
    this.#headGradients ??= companions(this.core.runtime, this.heads)
    return this.#headGradients
  }

  #newMoments() {
    const { runtime } = this.core
    return { m: companions(runtime, this.#trained), v: companions(runtime, this.#trained) }
  }

  #newSampler(): PolicySampler {
    return new PolicySampler(this.core, this.parameters, () => this.#step, this.options.sampler)
  }

  #dropGradients(): void {
    if (this.#gradients) this.core.giveGradients(this.#gradients)
    if (this.#headGradients) disposeAll(this.#headGradients.values())
    this.#gradients = undefined
    this.#headGradients = undefined
  }

  #disposeMoments(): void {
    if (this.#moments) for (const tensors of Object.values(this.#moments)) disposeAll(tensors.values())
    this.#moments = undefined
  }

  #identity() {
    const { architecture, vocabSize, hiddenSize, numLayers } = this.core.config
    const { training } = this.core
    const adapter = training === 'full' ? 'full' : `lora rank ${training.rank} alpha ${training.alpha}`
    return { architecture, vocabSize, hiddenSize, numLayers, training: adapter }
  }
}

function resultOf({ loss, logprobs, metrics }: PassResult): ForwardResult {
  return { loss, logprobs, metrics }
}

function describe(
  core: ModelCore,
  parameters: readonly Parameter[],
  heads: readonly Parameter[],
  source: string,
): ModelInfo {
  const { config, training } = core
  const base = modelWeights(config).reduce((sum, { shape }) => sum + elements(shape), 0)
  const trained = parameterCount(parameters)
  const ofHeads = parameterCount(heads)
  return {
    source,
    architecture: config.architecture,
    vocabSize: config.vocabSize,
    contextLength: core.contextLength,
    eosTokenIds: config.eosTokenIds,
    parameters: { total: (training === 'full' ? base : base + trained) + ofHeads, trained: trained + ofHeads },
    training: training === 'full' ? 'full' : { loraRank: training.rank },
    sideBySide: isSmallModel(config),
  }
}

async function fill(tensor: Tensor<'float32'>, read: (into: Float32Array) => Promise<Float32Array>): Promise<void> {
  if (tensor.data) await read(tensor.data)
  else await tensor.write(await read(new Float32Array(tensor.size)))
}
