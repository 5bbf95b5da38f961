import type { SamplingClient } from '@selfplay/engine'
import type { WeightFile } from '../graph/index.js'
import { isSmallModel } from '../models/execution-plan.js'
import { modelWeights } from '../models/weights.js'
import type { Tensor } from '../runtime/types.js'
import { createEngine, type GenerationEngine } from '../sample/index.js'
import type { ModelCore } from './model-core.js'
import { disposeAll, type Parameter } from './parameters.js'

export interface SamplerOptions {
  /** Rows that are sampled side by side. */
  readonly slots: number
  /** Seeds requests that bring no seed. */
  readonly seed: number
  /** Text of ids, for stop strings. */
  readonly decode?: (ids: readonly number[]) => string
}

/** The sampling side of one policy: reads the very tensors that are trained. */
export class PolicySampler {
  readonly #core: ModelCore
  readonly #parameters: readonly Parameter[]
  readonly #options: SamplerOptions
  readonly #engine: GenerationEngine

  /** @param version number of optimiser steps behind the weights, asked at every use. */
  constructor(core: ModelCore, parameters: readonly Parameter[], version: () => number, options: SamplerOptions) {
    this.#core = core
    this.#parameters = parameters
    this.#options = options
    this.#engine = openEngine(core, parameters, { version, trained: true, options })
    core.addDecoder(this.#engine)
  }

  /** A view of the weights as they are now; stale after the next step. */
  live(): SamplingClient {
    return this.#engine.sampler()
  }

  /** A copy that later steps do not touch: of the adapter, or of all weights. */
  async frozen(step: number): Promise<SamplingClient> {
    const core = this.#core
    const copies: Parameter[] = []
    for (const { name, shape, weight } of this.#parameters) {
      copies.push({ name, shape, weight: core.runtime.tensor('float32', await weight.read(), shape) })
    }
    core.retain()
    const engine = openEngine(core, copies, { version: () => step, trained: false, options: this.#options })
    core.addDecoder(engine)
    const client = engine.sampler()
    let disposed: Promise<void> | undefined
    const dispose = async () => {
      core.removeDecoder(engine)
      await engine.dispose()
      disposeAll(copies.map(({ weight }) => weight))
      await core.release()
    }
    return {
      policyVersion: step,
      contextLength: client.contextLength,
      sample: (request, options) => client.sample(request, options),
      logprobs: (tokens, options) => client.logprobs(tokens, options),
      dispose: () => (disposed ??= dispose()),
    }
  }

  dispose(): Promise<void> {
    this.#core.removeDecoder(this.#engine)
    return this.#engine.dispose()
  }
}

interface EngineParts {
  readonly version: () => number
  /** Whether the parameters change from version to version. */
  readonly trained: boolean
  readonly options: SamplerOptions
}

function openEngine(core: ModelCore, parameters: readonly Parameter[], parts: EngineParts): GenerationEngine {
  const { version, trained, options } = parts
  const own = new Map(parameters.map(({ name, weight }) => [name, weight]))
  const adapted = core.training !== 'full'
  return createEngine({
    runtime: core.runtime,
    config: core.config,
    weights: adapted ? frozenWeights(core) : own,
    ...(core.training !== 'full' && { adapter: { options: core.training, tensors: own } }),
    trained: trained && !adapted,
    packing: adapted ? core.packed : 'auto',
    ...((adapted || (trained && isSmallModel(core.config))) && core.decoders && { pool: core.decoders }),
    slots: options.slots,
    seed: options.seed,
    maxLength: core.contextLength,
    stop: core.config.eosTokenIds,
    version,
    ...(options.decode && { decode: options.decode }),
  })
}

function frozenWeights(core: ModelCore): Map<string, Tensor<'float32'> | WeightFile> {
  return new Map(modelWeights(core.config).map(({ name }) => [name, core.frozen.get(name) ?? core.folder.file(name)!]))
}
