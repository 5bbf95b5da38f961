import { InvalidInputError, type CallOptions, type TrainingClient } from '@selfplay/engine'
import { openAdapterFolder, openModelFolder, type ModelFolder } from './checkpoint/index.js'
import { resolveModel } from './hub/index.js'
import { readModelConfig, type ModelConfig } from './models/config.js'
import { checkWeights, modelWeights } from './models/weights.js'
import { createRuntime } from './runtime/index.js'
import { checkKeys } from './runtime/nearest.js'
import type { Runtime } from './runtime/types.js'
import { OrtTrainingClient, type ClientOptions } from './train/client.js'
import { checkLora, checkRank, loraWeights, type LoraOptions } from './models/lora.js'
import { initialLora } from './train/initial-lora.js'
import { ModelCore } from './train/model-core.js'
import { companions, type Parameter } from './train/parameters.js'

/** What a policy's text is made with; carried along for whoever trains it. */
export interface TokenDecoder {
  decode(ids: readonly number[]): string
}

export interface LoadOptions<T extends TokenDecoder = TokenDecoder> extends CallOptions {
  /** Branch, tag or commit of a hub model. */
  readonly revision?: string
  /** Train all weights (default), or a low-rank adapter on frozen ones; missing fields take `LORA_DEFAULTS`. */
  readonly training?: 'full' | Partial<LoraOptions>
  /** A PEFT folder whose adapter is trained on; rank, alpha and targets are its own. */
  readonly adapter?: string
  /** Seeds the adapter's start and the samplers. Default 0. */
  readonly seed?: number
  /** Threads of onnxruntime. Default: all cores that the system offers. */
  readonly threads?: number
  /** Longest sequence in tokens. Default: the model's own limit, at most 8192. */
  readonly contextLength?: number
  /** Bytes of activations that one micro-batch may take. Default 1.5 GiB. */
  readonly activationBytes?: number
  /** Rows that are sampled side by side. Default 16. */
  readonly slots?: number
  /** Needed for stop strings; kept as the client's `tokenizer`. */
  readonly tokenizer?: T
  /** The runtime to use; by default each load makes its own. */
  readonly runtime?: Runtime
}

/** How several agents share a model. */
export type AgentMode =
  /** Each has weights of its own. */
  | 'separate'
  /** Each has an adapter; the frozen base is there once. */
  | 'adapters'
  /** All are one and the same client. */
  | 'shared'

export interface LoadAgentsOptions<T extends TokenDecoder = TokenDecoder> extends Omit<LoadOptions<T>, 'training'> {
  /** Default `separate`. */
  readonly mode?: AgentMode
  /** Of `adapters` (and of `shared`, where it makes the one client an adapter). */
  readonly lora?: Partial<LoraOptions>
}

/** A training client that knows its tokenizer. */
export type LoadedClient<T extends TokenDecoder = TokenDecoder> = TrainingClient & { readonly tokenizer: T | undefined }

/** Records, so that the compiler keeps them whole. */
const LOAD_KEYS: Record<keyof LoadOptions, true> = {
  signal: true,
  revision: true,
  training: true,
  adapter: true,
  seed: true,
  threads: true,
  contextLength: true,
  activationBytes: true,
  slots: true,
  tokenizer: true,
  runtime: true,
}
const { training: _training, ...COMMON_KEYS } = LOAD_KEYS
const AGENT_KEYS: Record<keyof LoadAgentsOptions, true> = { ...COMMON_KEYS, mode: true, lora: true }

/** Names of the options of each way to load: of one client, and of agents. */
export const OPTION_NAMES = { one: Object.keys(LOAD_KEYS), agents: Object.keys(AGENT_KEYS) } as const

/** Too little for the activations of even one token of a model. */
const MIN_ACTIVATION_BYTES = 2 ** 16

const DEFAULT_ACTIVATION_BYTES = 1.5 * 2 ** 30
const MAX_DEFAULT_CONTEXT = 8192

/**
 * Loads a model to train.
 *
 * @param source a local folder in Hugging Face layout, or a hub name (`org/name`).
 * @throws CheckpointError, UnsupportedModelError, WeightMismatchError, InvalidInputError: see the messages.
 */
export async function loadTrainingClient<T extends TokenDecoder>(
  source: string,
  options: LoadOptions<T> = {},
): Promise<LoadedClient<T>> {
  checkKeys('loadTrainingClient', options, OPTION_NAMES.one)
  const { core, adapter } = await openCore(source, options)
  return (await newClients(core, 1, () => newClient(core, source, options, adapter)))[0]!
}

/**
 * Loads n agents that start from one model. Agents of one model share compiled graphs; `adapters` also share the frozen base.
 * With `separate` and `adapters`, weights are byte-identical at the start.
 */
export async function loadAgents<T extends TokenDecoder>(
  source: string,
  count: number,
  options: LoadAgentsOptions<T> = {},
): Promise<LoadedClient<T>[]> {
  checkKeys('loadAgents', options, OPTION_NAMES.agents)
  return makeAgents(count, options, async (clients, load) => {
    const { core, adapter } = await openCore(source, load, clients)
    return newClients(core, clients, () => newClient(core, source, load, adapter))
  })
}

/** @internal Agents as `mode` says, from as many clients as that takes. */
export async function makeAgents<O extends LoadAgentsOptions, C>(
  count: number,
  options: O,
  make: (clients: number, load: O & Pick<LoadOptions, 'training'>) => Promise<C[]>,
): Promise<C[]> {
  const { mode = 'separate', lora, adapter } = options
  checkCount('agents', count)
  if (!['separate', 'adapters', 'shared'].includes(mode)) {
    throw new InvalidInputError(`mode must be separate, adapters or shared, got ${String(mode)}`, { got: mode })
  }
  if (mode === 'separate' && lora) {
    throw new InvalidInputError(`lora is of mode "adapters" or "shared"; with "separate" all weights are trained`)
  }
  const adapted = mode === 'adapters' || lora !== undefined || adapter !== undefined
  const load = { ...options, training: adapted ? (lora ?? {}) : ('full' as const) }
  if (mode !== 'shared') return make(count, load)
  const [client] = await make(1, load)
  return Array.from({ length: count }, () => client!)
}

/** @internal */
export function checkCount(what: string, count: number): void {
  if (Number.isSafeInteger(count) && count >= 1) return
  throw new InvalidInputError(`expected a whole number of ${what} >= 1, got ${count}`, { got: count })
}

/** @internal Clients of one core, one after another; when one fails, what there is goes, the core too. */
export async function newClients<C extends TrainingClient>(
  core: ModelCore,
  count: number,
  make: () => Promise<C>,
): Promise<C[]> {
  const clients: C[] = []
  core.retain()
  try {
    while (clients.length < count) clients.push(await make())
    return clients
  } catch (error) {
    await Promise.all(clients.map((client) => client.dispose()))
    throw error
  } finally {
    await core.release()
  }
}

/** @internal An adapter to start from. */
export interface StartAdapter {
  read(name: string, options: { readonly into: Float32Array }): Promise<Float32Array>
}

/** @internal A model with its runtime and compiled graphs, ready for so many clients. */
export async function openCore(
  source: string,
  options: LoadOptions,
  agents = 1,
): Promise<{ core: ModelCore; adapter?: StartAdapter }> {
  const { signal, revision } = options
  checkActivationBytes(options.activationBytes)
  if (options.training !== undefined) trainingOf(options)
  const path = await resolveModel(source, { ...(signal && { signal }), ...(revision !== undefined && { revision }) })
  const folder = await openModelFolder(path, signal ? { signal } : {})
  const config = readModelConfig(folder.config, folder.generationConfig)
  checkWeights(config, folder.tensors)
  const adapter = options.adapter === undefined ? undefined : await openStart(options.adapter, config, options)
  const training = adapter?.lora ?? trainingOf(options)
  if (!adapter && training !== 'full') checkRank(config, training)
  const contextLength = contextOf(config, options.contextLength)
  const runtime =
    options.runtime ?? (await createRuntime(options.threads === undefined ? {} : { threads: options.threads }))
  const ownsRuntime = options.runtime === undefined
  try {
    const parts = { runtime, ownsRuntime, folder, config, training, contextLength, agents }
    const core = await ModelCore.create(parts, signal)
    return { core, ...(adapter && { adapter }) }
  } catch (error) {
    if (ownsRuntime) await runtime.dispose()
    throw error
  }
}

function trainingOf({ training = 'full' }: LoadOptions): 'full' | LoraOptions {
  if (training === 'full') return training
  if (typeof training === 'object' && training !== null && !Array.isArray(training)) return checkLora(training)
  const got = JSON.stringify(training)
  throw new InvalidInputError(
    `training: expected "full", or the options of an adapter such as {rank: 16}, got ${got}`,
    {
      got: training,
    },
  )
}

function checkActivationBytes(bytes: number | undefined): void {
  if (bytes === undefined || (Number.isFinite(bytes) && bytes >= MIN_ACTIVATION_BYTES)) return
  throw new InvalidInputError(`activationBytes: expected at least ${MIN_ACTIVATION_BYTES}, got ${bytes}`, {
    got: bytes,
  })
}

function contextOf(config: ModelConfig, asked: number | undefined): number {
  if (asked === undefined) return Math.min(config.maxPositions, MAX_DEFAULT_CONTEXT)
  if (Number.isSafeInteger(asked) && asked >= 2 && asked <= config.maxPositions) return asked
  throw new InvalidInputError(
    `contextLength must be a whole number from 2 to ${config.maxPositions}, the model's own limit; got ${asked}`,
    { got: asked, maxPositions: config.maxPositions },
  )
}

async function openStart(path: string, config: ModelConfig, { training, signal }: LoadOptions) {
  if (training !== undefined && training !== 'full' && Object.keys(training).length > 0) {
    throw new InvalidInputError(`rank, alpha and targets come from the adapter at ${path}: leave them out`)
  }
  const folder = await openAdapterFolder(path, signal ? { signal } : {})
  const targets = [...new Set([...folder.pairs.keys()].map((name) => name.split('.').at(-1)!))]
  const lora = checkLora({ rank: folder.rank, alpha: folder.scaling * folder.rank, targets })
  const read: StartAdapter['read'] = (name, options) => folder.read(`base_model.model.${name}`, options)
  for (const { name, shape } of loraWeights(config, lora)) {
    const entry = folder.tensors.get(`base_model.model.${name}`)
    if (entry?.shape.join() !== shape.join()) {
      throw new InvalidInputError(
        `the adapter at ${path} does not fit the model: ${name} should be [${shape.join(', ')}], it is ${entry ? `[${entry.shape.join(', ')}]` : 'missing'}`,
        { path, tensor: name, expected: shape, got: entry?.shape },
      )
    }
  }
  return { lora, read }
}

async function newClient<T extends TokenDecoder>(
  core: ModelCore,
  source: string,
  options: LoadOptions<T>,
  adapter: StartAdapter | undefined,
): Promise<LoadedClient<T>> {
  const parameters = await startParameters(core, options, adapter)
  const client = new OrtTrainingClient(core, parameters, clientOptions(source, options))
  return Object.assign(client, { tokenizer: options.tokenizer })
}

/** @internal What a client trains, as it is at the start. */
export function startParameters(
  core: ModelCore,
  { seed = 0, signal }: LoadOptions,
  adapter: StartAdapter | undefined,
): Promise<Parameter[]> {
  return core.training === 'full'
    ? readParameters(core, core.folder, signal)
    : adapterParameters(core, core.training, seed, adapter)
}

/** @internal */
export function clientOptions(source: string, options: LoadOptions): ClientOptions {
  const { seed = 0, tokenizer } = options
  return {
    source,
    activationBytes: options.activationBytes ?? DEFAULT_ACTIVATION_BYTES,
    sampler: {
      slots: options.slots ?? 16,
      seed,
      ...(tokenizer && { decode: (ids: readonly number[]) => tokenizer.decode(ids) }),
    },
  }
}

async function readParameters(core: ModelCore, folder: ModelFolder, signal?: AbortSignal): Promise<Parameter[]> {
  const parameters = allocateParameters(core, modelWeights(core.config))
  for (const { name, weight } of parameters) {
    const read = (into: Float32Array) => folder.read(name, { into, ...(signal && { signal }) })
    if (weight.data) await read(weight.data)
    else await weight.write(await read(new Float32Array(weight.size)))
  }
  return parameters
}

async function adapterParameters(
  core: ModelCore,
  lora: LoraOptions,
  seed: number,
  adapter: StartAdapter | undefined,
): Promise<Parameter[]> {
  const parameters = allocateParameters(core, loraWeights(core.config, lora))
  for (const [index, { name, shape, weight }] of parameters.entries()) {
    const into = new Float32Array(weight.size)
    await weight.write(adapter ? await adapter.read(name, { into }) : initialLora(name, shape, seed, index))
  }
  return parameters
}

function allocateParameters(core: ModelCore, specs: readonly Pick<Parameter, 'name' | 'shape'>[]): Parameter[] {
  const tensors = companions(core.runtime, specs)
  return specs.map(({ name, shape }) => ({ name, shape, weight: tensors.get(name)! }))
}
