import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { CheckpointError, InvalidInputError, type ActorCriticClient, type CriticClient } from '@selfplay/engine'
import { openSafetensors, readTensor, type ParameterSpec } from './checkpoint/index.js'
import {
  checkCount,
  clientOptions,
  makeAgents,
  newClients,
  OPTION_NAMES,
  openCore,
  startParameters,
  type LoadAgentsOptions,
  type LoadOptions,
  type TokenDecoder,
} from './load.js'
import { checkKeys } from './runtime/nearest.js'
import type { ModelCore } from './train/model-core.js'
import type { Parameter } from './train/parameters.js'
import { OrtValueClient, VALUE_HEAD_FILE, VALUE_HEAD_FORMAT } from './train/value-client.js'
import { initialValueHead, VALUE_HEAD, valueHeadWeights, type ValueHeadOptions } from './train/value-head.js'

export interface LoadCriticOptions<T extends TokenDecoder = TokenDecoder> extends LoadOptions<T> {
  /** Of a new head. A folder that has a head brings its own. */
  readonly valueHead?: ValueHeadOptions
}

export interface LoadActorCriticsOptions<T extends TokenDecoder = TokenDecoder> extends LoadAgentsOptions<T> {
  /** Of new heads. A folder that has a head brings its own. */
  readonly valueHead?: ValueHeadOptions
}

/** A critic that knows its tokenizer. */
export type Critic<T extends TokenDecoder = TokenDecoder> = CriticClient & { readonly tokenizer: T | undefined }

/**
 * Loads a decoder with a value head. A folder that a critic was exported to (`value_head.safetensors` lies in it, or in the
 * adapter's folder) brings its head; any other model gets a new one: weights normal(0, 0.02) by `seed`, biases 0.
 *
 * @param source a local folder in Hugging Face layout, or a hub name (`org/name`).
 * @throws what `loadTrainingClient` throws; CheckpointError when the head is damaged, newer, or of another model.
 */
export async function loadCritic<T extends TokenDecoder>(
  source: string,
  options: LoadCriticOptions<T> = {},
): Promise<Critic<T>> {
  checkKeys('loadCritic', options, [...OPTION_NAMES.one, 'valueHead'])
  return (await loadValueClients(source, 1, options))[0]!
}

/** Several critics that start from one model; with adapters (`training: { rank }`) they share its frozen weights. */
export async function loadCritics<T extends TokenDecoder>(
  source: string,
  count: number,
  options: LoadCriticOptions<T> = {},
): Promise<Critic<T>[]> {
  checkKeys('loadCritics', options, [...OPTION_NAMES.one, 'valueHead'])
  checkCount('critics', count)
  return loadValueClients(source, count, options)
}

/** Agents that are their own critics: policies with a value head on their hidden states. Options as of `loadAgents`. */
export async function loadActorCritics<T extends TokenDecoder>(
  source: string,
  count: number,
  options: LoadActorCriticsOptions<T> = {},
): Promise<(ActorCriticClient & { readonly tokenizer: T | undefined })[]> {
  checkKeys('loadActorCritics', options, [...OPTION_NAMES.agents, 'valueHead'])
  return makeAgents(count, options, (clients, load) => loadValueClients(source, clients, load))
}

async function loadValueClients<T extends TokenDecoder>(source: string, count: number, options: LoadCriticOptions<T>) {
  const { core, adapter } = await openCore(source, options, count)
  const folder = options.adapter ?? core.folder.path
  return newClients(core, count, async () => {
    const head = await readHead(core, folder, options)
    const parameters = await startParameters(core, options, adapter)
    const client = new OrtValueClient(core, parameters, head, clientOptions(source, options))
    return Object.assign(client, { tokenizer: options.tokenizer })
  })
}

async function readHead(core: ModelCore, folder: string, options: LoadCriticOptions): Promise<Parameter[]> {
  const { seed = 0, valueHead } = options
  const modelSize = core.config.hiddenSize
  const make = (spec: ParameterSpec, values: Float32Array): Parameter => ({
    ...spec,
    weight: core.runtime.tensor('float32', values, spec.shape),
  })
  if (!(await readdir(folder)).includes(VALUE_HEAD_FILE)) {
    return valueHeadWeights(modelSize, valueHead).map((spec) => make(spec, initialValueHead(spec, seed)))
  }
  const path = join(folder, VALUE_HEAD_FILE)
  const { tensors, metadata } = await openSafetensors(path, options.signal ? { signal: options.signal } : {})
  const version = Number(metadata['formatVersion'])
  if (!(version <= VALUE_HEAD_FORMAT)) {
    throw new CheckpointError(
      `${path} has format version ${metadata['formatVersion'] ?? 'none'}; this version of selfplay reads up to ` +
        `${VALUE_HEAD_FORMAT}: update it, or export the critic again`,
      { path, expected: VALUE_HEAD_FORMAT, got: metadata['formatVersion'] },
    )
  }
  const hiddenSize = tensors.get(VALUE_HEAD.inner.bias)?.shape[0] ?? modelSize
  if (valueHead?.hiddenSize !== undefined && valueHead.hiddenSize !== hiddenSize) {
    throw new InvalidInputError(
      `valueHead.hiddenSize is ${valueHead.hiddenSize}, but the head in ${path} is ${hiddenSize} wide: leave it out`,
      { expected: hiddenSize, got: valueHead.hiddenSize },
    )
  }
  const parameters: Parameter[] = []
  for (const spec of valueHeadWeights(modelSize, { hiddenSize })) {
    const entry = tensors.get(spec.name)
    if (entry?.dtype !== 'F32' || entry.shape.join() !== spec.shape.join()) {
      throw new CheckpointError(
        `${path}: expected ${spec.name} as F32 [${spec.shape.join(', ')}], got ` +
          `${entry ? `${entry.dtype} [${entry.shape.join(', ')}]` : 'none'}. Export the critic again`,
        { path, tensor: spec.name },
      )
    }
    parameters.push(make(spec, await readTensor(entry)))
  }
  return parameters
}
