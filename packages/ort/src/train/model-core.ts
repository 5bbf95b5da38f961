import type { ModelFolder } from '../checkpoint/index.js'
import type { SerialisedModel } from '../graph/index.js'
import type { ModelConfig } from '../models/config.js'
import { attentionMask, maskName, ropeRows } from '../models/decoder.js'
import {
  decodersMakeRoom,
  isSmallModel,
  plansTrainingMemory,
  runArena,
  sharesDecoders,
  trainingArena,
  trainingOptimisation,
  trainingThreads,
  type TrainingThreads,
} from '../models/execution-plan.js'
import { ropeTables, type RopeTables } from '../models/rope.js'
import { EMBEDDING, headWeightName, modelWeights } from '../models/weights.js'
import type { PackedWeights, Runtime, Session, Tensor } from '../runtime/types.js'
import { ParameterMath } from './adamw.js'
import type { GraphLoss } from './losses.js'
import type { LoraOptions } from '../models/lora.js'
import { SessionPool } from '../sample/session-pool.js'
import { companions, disposeAll, elements, type Companions, type Parameter } from './parameters.js'
import { headChunks, trainingGraph, type HeadChunk, type TrainingPlan } from './training-graph.js'

/** Gradient buffers up to this size are kept between steps; larger ones are given back, for the sampler to use. */
const KEPT_GRADIENT_BYTES = 512 * 2 ** 20

/** What samples from weights of a model, with copies of them that it can do without for a while. */
interface Decoder {
  releaseIfIdle(): Promise<void>
}

/** A session with the names of what it is fed. */
interface CompiledGraph {
  readonly session: Session
  readonly inputs: readonly string[]
}

interface CompileOptions {
  /** Whether it runs beside others, on its share of the threads. */
  readonly inLane: boolean
  /** Rows of the head among its weights. Default: none, the head is whole. */
  readonly chunks?: readonly HeadChunk[]
}

/** A session with the head chunks that it is fed. */
export interface TrainingSession {
  readonly session: Session
  readonly chunks: readonly HeadChunk[]
}

/**
 * What all clients of one model have in common: its shape, compiled graphs, frozen weights, gradient buffers.
 *
 * Weights that are trained are inputs of the graphs, so agents of one shape share every compiled graph.
 */
export class ModelCore {
  readonly runtime: Runtime
  readonly folder: ModelFolder
  readonly config: ModelConfig
  readonly training: 'full' | LoraOptions
  readonly rope: RopeTables
  readonly math: ParameterMath
  /** Frozen weights that could not be mapped from their file (stored as f16 or bf16), by name. */
  readonly frozen: ReadonlyMap<string, Tensor<'float32'>>
  /** Where decoders share their sessions. */
  readonly decoders: SessionPool | undefined
  readonly #sessions = new Map<string, Promise<CompiledGraph>>()
  readonly #freeGradients: Companions[] = []
  readonly #positions: { cos: Tensor; sin: Tensor; length: number }[] = []
  readonly #ownsRuntime: boolean
  readonly #threads: TrainingThreads
  readonly #decoders = new Set<Decoder>()
  #packed: PackedWeights | undefined
  #users = 0

  private constructor(parts: CoreParts, math: ParameterMath, frozen: ReadonlyMap<string, Tensor<'float32'>>) {
    this.runtime = parts.runtime
    this.folder = parts.folder
    this.config = parts.config
    this.training = parts.training
    this.rope = ropeTables(parts.config, parts.contextLength)
    this.math = math
    this.frozen = frozen
    this.decoders = decoderPool(parts.config)
    this.#ownsRuntime = parts.ownsRuntime ?? false
    const { config, runtime, agents = 1 } = parts
    this.#threads = trainingThreads(config, { threads: runtime.threads, agents, overlap: runtime.kind !== 'binding' })
  }

  static async create(parts: CoreParts, signal?: AbortSignal): Promise<ModelCore> {
    const math = await ParameterMath.create(parts.runtime, runArena(parts.config))
    const frozen = new Map<string, Tensor<'float32'>>()
    if (parts.training !== 'full') {
      for (const { name, shape } of modelWeights(parts.config)) {
        if (parts.folder.file(name)) continue
        const tensor = parts.runtime.allocate('float32', shape)
        await parts.folder.read(name, { ...(signal && { signal }), into: tensor.data! })
        frozen.set(name, tensor)
      }
    }
    return new ModelCore(parts, math, frozen)
  }

  /** Longest sequence. */
  get contextLength(): number {
    return this.rope.positions
  }

  /** Micro-batches of a call that run side by side. */
  get lanes(): number {
    return this.#threads.lanes
  }

  get plan(): TrainingPlan {
    return { config: this.config, training: this.training, file: (name) => this.folder.file(name) }
  }

  /** Packed copies of the frozen weights, made once for all decoders. */
  get packed(): PackedWeights {
    this.#packed ??= this.runtime.packedWeights()
    return this.#packed
  }

  /** The compiled graph for a loss, with the head in so many chunks of the vocabulary. */
  async session(loss: GraphLoss, gradients: boolean, count: number, inLane = false): Promise<TrainingSession> {
    const { normalise: _, ...formula } = loss
    const chunks = headChunks(this.config, count)
    const build = () => trainingGraph(this.plan, { loss, gradients, headChunks: count })
    const { session } = await this.compiled([formula, gradients, count], build, { inLane, chunks })
    return { session, chunks }
  }

  /**
   * A graph on this model's frozen weights, compiled once for all clients.
   *
   * @param key plain data that says which graph `build` builds.
   */
  compiled(key: unknown, build: () => SerialisedModel, options: CompileOptions): Promise<CompiledGraph> {
    const name = JSON.stringify([key, options.inLane])
    const known = this.#sessions.get(name)
    if (known) return known
    const made = this.#compile(build(), options)
    this.#sessions.set(name, made)
    made.catch(() => this.#sessions.delete(name))
    return made
  }

  async #compile(model: SerialisedModel, { inLane, chunks = [] }: CompileOptions): Promise<CompiledGraph> {
    const weights: Record<string, Tensor> = {}
    for (const { name, file } of model.weights) {
      if (!file) weights[name] = this.#frozenTensor(name, chunks)
    }
    const { concurrent, threads, laneThreads } = this.#threads
    const session = await this.runtime.createSession(model, {
      packing: 'none',
      weights,
      arena: trainingArena(this.config),
      optimisation: trainingOptimisation(this.config),
      memoryPattern: plansTrainingMemory(this.config),
      concurrent: concurrent || inLane,
      threads: inLane ? laneThreads : threads,
    })
    return { session, inputs: model.inputs.map(({ name }) => name) }
  }

  #frozenTensor(name: string, chunks: readonly HeadChunk[]): Tensor<'float32'> {
    const whole = this.frozen.get(name)
    const chunk = chunks.find((one) => one.name === name)
    if (whole || !chunk) return whole!
    const width = this.config.hiddenSize
    const head = this.frozen.get(headWeightName(this.config))!
    return this.runtime.view(head, chunk.start * width, [chunk.end - chunk.start, width])
  }

  /** Feeds of the inputs that depend on the length only; the caller disposes the masks. */
  lengthFeeds(length: number): Record<string, Tensor> {
    const half = this.config.headDim / 2
    const { cos, sin } = this.#rope(length, half)
    const feeds: Record<string, Tensor> = { rope_cos: cos, rope_sin: sin }
    for (const window of new Set(this.config.windows)) {
      feeds[maskName(window)] = this.runtime.tensor('float32', attentionMask(length, window), [length, length])
    }
    return feeds
  }

  #rope(length: number, half: number) {
    const known = this.#positions.find((one) => one.length === length)
    if (known) return known
    const { cos, sin } = ropeRows(this.rope, length)
    const made = {
      length,
      cos: this.runtime.tensor('float32', cos, [length, half]),
      sin: this.runtime.tensor('float32', sin, [length, half]),
    }
    this.#positions.push(made)
    return made
  }

  /** Gradient buffers for a parameter list; contents are arbitrary. */
  takeGradients(parameters: readonly Parameter[]): Companions {
    return this.#freeGradients.pop() ?? companions(this.runtime, parameters)
  }

  giveGradients(gradients: Companions): void {
    const bytes = 4 * [...gradients.values()].reduce((sum, { dims }) => sum + elements(dims), 0)
    if (bytes <= KEPT_GRADIENT_BYTES && this.#freeGradients.length < this.#wantedGradients)
      this.#freeGradients.push(gradients)
    else disposeAll(gradients.values())
  }

  /** Most buffers that are in use at a time: each lane of each client that may train sums up in one and runs into another. */
  get #wantedGradients(): number {
    return 2 * this.lanes * (this.#threads.concurrent ? this.#users : 1)
  }

  addDecoder(decoder: Decoder): void {
    this.#decoders.add(decoder)
  }

  removeDecoder(decoder: Decoder): void {
    this.#decoders.delete(decoder)
  }

  /** Before a backward pass: of a large model, gradients and the decoders' copies of all agents do not fit side by side. */
  async makeRoom(): Promise<void> {
    if (!decodersMakeRoom(this.config, this.training)) return
    await Promise.all([...this.#decoders].map((decoder) => decoder.releaseIfIdle()))
  }

  /** Whether the head matrix is the embedding and both are trained. */
  get tiedAndTrained(): boolean {
    return this.training === 'full' && headWeightName(this.config) === EMBEDDING
  }

  retain(): void {
    this.#users++
  }

  /** Frees everything once the last client has gone. */
  async release(): Promise<void> {
    this.#users--
    if (this.#users > 0) return
    const sessions = await Promise.allSettled(this.#sessions.values())
    this.#sessions.clear()
    for (const made of sessions) if (made.status === 'fulfilled') await made.value.session.dispose()
    await this.math.dispose()
    this.#packed?.dispose()
    for (const gradients of this.#freeGradients.splice(0)) disposeAll(gradients.values())
    for (const { cos, sin } of this.#positions.splice(0)) disposeAll([cos, sin])
    disposeAll(this.frozen.values())
    if (this.#ownsRuntime) await this.runtime.dispose()
  }
}

export interface CoreParts {
  readonly runtime: Runtime
  /** Whether the runtime goes with the core. Default false. */
  readonly ownsRuntime?: boolean
  readonly folder: ModelFolder
  readonly config: ModelConfig
  readonly training: 'full' | LoraOptions
  /** Longest sequence, at most the model's. */
  readonly contextLength: number
  /** Clients that the core is made for. Default 1. */
  readonly agents?: number
}

/** Sessions that decoders share: of large models, whose steps keep all threads busy, and of small ones, whose sessions take longer to make than to use. */
function decoderPool(config: ModelConfig): SessionPool | undefined {
  if (isSmallModel(config)) return new SessionPool({ concurrent: true })
  return sharesDecoders(config) ? new SessionPool() : undefined
}
