import type { SerialisedModel } from '../graph/index.js'
import type { ModelConfig } from '../models/config.js'
import { packsChangingWeights, runArena, samplingThreads } from '../models/execution-plan.js'
import type { PackedWeights, Runtime, Session, SessionOptions, Tensor } from '../runtime/index.js'
import type { SamplerWeights } from './graphs.js'
import type { Company } from './pace.js'
import type { SessionPool } from './session-pool.js'

/**
 * What happens to the base weights.
 * `none`: read where they lie; a change is seen at once. `packed`: copied into the order in which matrix products read them, which
 * makes steps faster and takes as much memory again; trained weights are packed anew before the first step after each change.
 * A container: packed into it and shared with every other user of it; only for weights that never change.
 * `auto`: `packed`, except for weights that change of models below 1 M parameters, which are too small to gain.
 */
export type Packing = 'auto' | 'none' | 'packed' | PackedWeights

export interface SessionPlan {
  readonly runtime: Runtime
  readonly config: ModelConfig
  readonly weights: SamplerWeights
  /** Whether the base weights change between versions. */
  readonly trained: boolean
  readonly packing: Packing
  /** Default: as many as the runtime has, or 1 for models below 8 M parameters. */
  readonly threads: number | undefined
  /** Where sessions are shared with other samplers, unless they are packed for weights that change. Default: each has its own. */
  readonly pool?: SessionPool | undefined
}

/** Makes the sessions of one sampler: the same weights, packed once for all of them. */
export class SessionFactory {
  readonly #plan: SessionPlan
  readonly #packs: boolean
  readonly #threads: number
  #own: PackedWeights | undefined
  #ownVersion: number | undefined

  constructor(plan: SessionPlan) {
    const { config, packing, trained, runtime } = plan
    this.#plan = plan
    this.#packs = packing === 'auto' ? !trained || packsChangingWeights(config) : packing !== 'none'
    this.#threads = plan.threads ?? samplingThreads(config, runtime.threads)
  }

  /** Where `create` shares its sessions. */
  get #pool(): SessionPool | undefined {
    return this.#plan.trained && this.#packs ? undefined : this.#plan.pool
  }

  /** Whether a run may have to wait for one of another sampler. */
  get waits(): boolean {
    const pool = this.#pool
    return pool !== undefined && !(pool.concurrent && this.#plan.runtime.kind === 'native')
  }

  /** Whether sessions are made so fast that those of a sampler may be made at once. */
  get light(): boolean {
    return this.#pool?.concurrent === true
  }

  /**
   * The samplers beside which strides of several steps are worth a graph of their own: those of small models, whose single steps would
   * all be made on one thread because they are shorter than a change of threads. Runs of the `binding` never leave it.
   */
  get company(): Company | undefined {
    const { runtime } = this.#plan
    return this.light && runtime.threads > 1 && runtime.kind === 'native' ? this.#pool?.company : undefined
  }

  /** The weights as graphs take them: those that change are inputs where other samplers, on other weights, share the sessions. */
  get weights(): SamplerWeights {
    return { ...this.#plan.weights, fed: this.#plan.trained && this.#pool !== undefined }
  }

  /** A graph of these weights. Its name says what else it depends on. */
  graph(name: string, build: (weights: SamplerWeights) => SerialisedModel): SerialisedModel {
    const make = () => build(this.weights)
    return this.#pool ? this.#pool.model(name, make) : make()
  }

  /** Whether a session made for the weights of one version no longer shows those of another. */
  outdated(made: number, now: number): boolean {
    return this.#plan.trained && this.#packs && made !== now
  }

  /** A session on the weights as they are now, in `version`. */
  async create(model: SerialisedModel, version: number): Promise<Session> {
    const { runtime, weights } = this.#plan
    const given: Record<string, Tensor> = {}
    for (const { name } of model.weights) {
      const source = weights.base.get(name)
      if (source && !('path' in source)) given[name] = source
    }
    const packing = this.#packing(version)
    return this.#make(model, () => runtime.createSession(model, { ...this.#options, weights: given, packing }))
  }

  /** A session of a graph without weights. */
  async createPlain(model: SerialisedModel): Promise<Session> {
    return this.#make(model, () => this.#plan.runtime.createSession(model, this.#options))
  }

  get #options(): SessionOptions {
    return { threads: this.#threads, concurrent: this.light, arena: runArena(this.#plan.config) }
  }

  async #make(model: SerialisedModel, make: () => Promise<Session>): Promise<Session> {
    return this.#pool ? this.#pool.acquire(model, make) : make()
  }

  /** Inputs of a graph that are matrices of the adapter, or weights that are fed. */
  inputs(model: SerialisedModel): Record<string, Tensor> {
    const { adapter, base } = this.#plan.weights
    const inputs: Record<string, Tensor> = {}
    for (const { name } of model.inputs) {
      const tensor = adapter?.tensors.get(name) ?? base.get(name)
      if (tensor && !('path' in tensor)) inputs[name] = tensor
    }
    return inputs
  }

  /** Gives its packed copies back once the sessions on them are disposed. */
  release(): void {
    this.#own?.dispose()
    this.#own = undefined
  }

  #packing(version: number): NonNullable<SessionOptions['packing']> {
    if (!this.#packs) return 'none'
    if (typeof this.#plan.packing === 'object') return this.#plan.packing
    if (this.#plan.trained && version !== this.#ownVersion) this.release()
    this.#ownVersion = version
    this.#own ??= this.#plan.runtime.packedWeights()
    return this.#own
  }
}
