import { InvalidInputError } from '@selfplay/engine'
import { checkKeys } from '../runtime/nearest.js'
import type { ModelConfig } from '../models/config.js'
import { modelWeights } from '../models/weights.js'
import type { Runtime } from '../runtime/index.js'
import { loraWeights } from '../models/lora.js'
import { GenerationEngine } from './engine.js'
import type { EngineOptions } from './engine.js'
import type { SamplerWeights } from './graphs.js'
import { OrtStepModel } from './ort-step-model.js'
import { SessionFactory } from './sessions.js'
import type { SessionPool } from './session-pool.js'
import type { Packing } from './sessions.js'

export interface CreateEngineOptions extends EngineOptions {
  readonly runtime: Runtime
  readonly config: ModelConfig
  /**
   * Every weight of the model by its Hugging Face name: a float32 tensor, or the part of a file of float32 numbers that holds it.
   * Neither is copied (unless packed), so they must live as long as the engine; a changed tensor counts from the next version on.
   */
  readonly weights: SamplerWeights['base']
  /** A low-rank adapter on top: its tensors are read at each step. */
  readonly adapter?: SamplerWeights['adapter']
  /** Whether `weights` (not only the adapter) change from version to version. Default false. */
  readonly trained?: boolean
  /** See {@link Packing}. Default `auto`. */
  readonly packing?: Packing
  /** Rows that advance together: the tokens of a seed depend on it. Default 16. */
  readonly slots?: number
  /** Longest prompt + completion, in tokens. Default and maximum: the context of the model. */
  readonly maxLength?: number
  /** Threads of each session. Default: those of the runtime, or 1 below 8 M parameters, where more do not help. */
  readonly threads?: number
  /**
   * Sessions shared with the engines that are given the same pool: those of the same graphs on the same frozen weights. Weights that
   * change are fed to them, unless they are packed: then they are not shared. Default: its own.
   */
  readonly pool?: SessionPool
}

const KEYS: readonly (keyof CreateEngineOptions)[] = [
  ...([
    'runtime',
    'config',
    'weights',
    'adapter',
    'trained',
    'packing',
    'slots',
    'maxLength',
    'threads',
    'pool',
  ] as const),
  ...(['seed', 'stop', 'decode', 'version'] as const),
]

/**
 * A sampler of a decoder model. Sessions are made at the first request; an engine without requests holds no memory beyond its rows.
 *
 * @throws InvalidInputError naming the option or the weight, what was expected and what came.
 */
export function createEngine(options: CreateEngineOptions): GenerationEngine {
  checkKeys('createEngine', options, KEYS)
  const { runtime, config, adapter, trained = false, packing = 'auto', slots = 16 } = options
  const maxLength = options.maxLength ?? config.maxPositions
  checkCount('slots', slots, 4096)
  checkCount('maxLength', maxLength, config.maxPositions)
  if (options.threads !== undefined) checkCount('threads', options.threads, 1024)
  if (typeof packing !== 'object' && !['auto', 'none', 'packed'].includes(packing)) {
    throw new InvalidInputError(
      `createEngine: packing must be auto, none, packed or a container, got ${String(packing)}`,
    )
  }
  if (trained && typeof packing === 'object') {
    throw new InvalidInputError(
      'createEngine: weights that change cannot live in a shared container: use packing "packed"',
    )
  }
  const weights: SamplerWeights = { base: options.weights, adapter }
  checkWeights(config, weights)
  const sessions = new SessionFactory({
    runtime,
    config,
    weights,
    trained,
    packing,
    threads: options.threads,
    pool: options.pool,
  })
  const model = new OrtStepModel({ runtime, config, sessions, slots, contextLength: maxLength })
  return new GenerationEngine(model, options)
}

function checkCount(name: string, value: number, most: number): void {
  if (Number.isSafeInteger(value) && value >= 1 && value <= most) return
  throw new InvalidInputError(`createEngine: ${name} must be a whole number from 1 to ${most}, got ${value}`, {
    option: name,
    got: value,
  })
}

function checkWeights(config: ModelConfig, { base, adapter }: SamplerWeights): void {
  for (const { name, shape } of modelWeights(config)) {
    const source = base.get(name)
    if (source && ('path' in source || source.dims.join() === shape.join())) continue
    refuse(name, shape, source && !('path' in source) ? source.dims : undefined)
  }
  for (const { name, shape } of adapter ? loraWeights(config, adapter.options) : []) {
    const tensor = adapter?.tensors.get(name)
    if (tensor?.dims.join() !== shape.join()) refuse(name, shape, tensor?.dims)
  }
}

function refuse(name: string, expected: readonly number[], got: readonly number[] | undefined): never {
  throw new InvalidInputError(
    `createEngine: weight "${name}": expected float32 [${expected.join(', ')}], got ${got ? `[${got.join(', ')}]` : 'nothing'}`,
    { weight: name, expected, got },
  )
}
