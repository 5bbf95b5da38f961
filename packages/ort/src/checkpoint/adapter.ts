import { join, resolve } from 'node:path'
import { CheckpointError } from '@selfplay/engine'
import { listFolder, tensorStore, type TensorStore } from './folder.js'
import { excerpt, readJsonObject, type JsonObject } from './json.js'
import { readManifest, verifyFiles, type FolderKind, type VerifyOptions } from './manifest.js'
import { damaged } from './problem.js'
import { openSafetensors, type TensorEntry } from './safetensors.js'

/** Adapter folders that this package writes carry a manifest of this kind. */
export const ADAPTER_FOLDER: FolderKind = { kind: 'adapter', formatVersion: 1 }

/** What PEFT puts before and after the name of the module that an adapter belongs to. */
export const PEFT_PREFIX = 'base_model.model.'
export const peftName = (module: string, side: 'A' | 'B'): string => `${PEFT_PREFIX}${module}.lora_${side}.weight`

/** The two matrices of one adapted linear layer: y += scaling * B A x. */
export interface AdapterPair {
  /** [rank, in]. */
  readonly a: TensorEntry
  /** [out, rank]. */
  readonly b: TensorEntry
}

/** A PEFT LoRA adapter. `read` takes the names of the file. */
export interface AdapterFolder extends TensorStore {
  /** Absolute. */
  readonly path: string
  /** adapter_config.json. */
  readonly config: JsonObject
  /** `r`. */
  readonly rank: number
  /** `lora_alpha`. */
  readonly alpha: number
  /** alpha / rank, or alpha / sqrt(rank) where the adapter uses rank-stabilised scaling (Kalajdzievski 2023). */
  readonly scaling: number
  /** Names of modules, or one pattern, as PEFT has them. */
  readonly targetModules: readonly string[] | string
  /** `base_model_name_or_path`, when it says. */
  readonly baseModel: string | undefined
  /** By module name in the base model, e.g. `model.layers.0.self_attn.q_proj`. */
  readonly pairs: ReadonlyMap<string, AdapterPair>
}

/** Fields that change what an adapter computes, with the values under which it is plain LoRA on linear layers. */
const PLAIN: Readonly<Record<string, readonly unknown[]>> = {
  bias: ['none'],
  use_dora: [false],
  use_bdlora: [false],
  use_qalora: [false],
  fan_in_fan_out: [false],
  lora_bias: [false],
  modules_to_save: [],
  layer_replication: [],
  target_parameters: [],
  trainable_token_indices: [],
  alora_invocation_tokens: [],
  arrow_config: [],
  megatron_config: [],
  monteclora_config: [],
  velora_config: [],
}

const isEmpty = (value: unknown): boolean =>
  value === undefined || value === null || (typeof value === 'object' && Object.keys(value).length === 0)

const HOW_TO = 'Give a folder with adapter_config.json and adapter_model.safetensors, as PEFT saves them'

/**
 * Opens a LoRA adapter in PEFT's layout. The matrices stay on disk until they are read.
 *
 * @throws CheckpointError when a file is missing or damaged, or the adapter is of a kind that plain LoRA cannot express
 *   (naming the field).
 */
export async function openAdapterFolder(directory: string, options: VerifyOptions = {}): Promise<AdapterFolder> {
  const path = resolve(directory)
  const names = await listFolder(path, HOW_TO, options)
  for (const name of ['adapter_config.json', 'adapter_model.safetensors']) {
    if (!names.has(name)) throw damaged(path, `an adapter folder with ${name}`, 'no such file', HOW_TO)
  }
  const manifest = await readManifest(path, ADAPTER_FOLDER, options)
  if (manifest) await verifyFiles(path, manifest, options)
  const place = join(path, 'adapter_config.json')
  const { value: config } = await readJsonObject(place, options)
  const { rank, alpha, targetModules } = readAdapterConfig(config, place)
  const { tensors } = await openSafetensors(join(path, 'adapter_model.safetensors'), options)
  return {
    path,
    config,
    rank,
    alpha,
    scaling: alpha / (config.use_rslora === true ? Math.sqrt(rank) : rank),
    targetModules,
    baseModel: typeof config.base_model_name_or_path === 'string' ? config.base_model_name_or_path : undefined,
    pairs: pairUp(tensors, rank, join(path, 'adapter_model.safetensors')),
    ...tensorStore(path, tensors),
  }
}

function readAdapterConfig(config: JsonObject, place: string) {
  const wrong = (expected: string, got: unknown) => damaged(place, expected, excerpt(JSON.stringify(got) ?? 'nothing'))
  if (config.peft_type !== 'LORA') throw wrong('"peft_type": "LORA", the only kind that is supported', config.peft_type)
  for (const [field, plain] of Object.entries(PLAIN)) {
    const value = config[field]
    if (!isEmpty(value) && !plain.includes(value)) throw wrong(`plain LoRA, without "${field}"`, value)
  }
  for (const field of ['rank_pattern', 'alpha_pattern']) {
    if (!isEmpty(config[field]))
      throw wrong(`one rank and one alpha for all modules, without "${field}"`, config[field])
  }
  const { r: rank, lora_alpha: alpha, target_modules: targetModules } = config
  if (typeof rank !== 'number' || !Number.isSafeInteger(rank) || rank < 1) throw wrong('"r", a whole number >= 1', rank)
  if (typeof alpha !== 'number' || !Number.isFinite(alpha)) throw wrong('"lora_alpha", a number', alpha)
  if (typeof targetModules === 'string') return { rank, alpha, targetModules }
  if (!Array.isArray(targetModules) || !targetModules.every((name) => typeof name === 'string')) {
    throw wrong('"target_modules", a list of names', targetModules)
  }
  return { rank, alpha, targetModules: targetModules as string[] }
}

function pairUp(tensors: ReadonlyMap<string, TensorEntry>, rank: number, place: string): Map<string, AdapterPair> {
  const pairs = new Map<string, AdapterPair>()
  for (const [name, entry] of tensors) {
    const match = /^base_model\.model\.(.+)\.lora_([AB])\.weight$/.exec(name)
    if (!match) throw damaged(place, `tensors named ${peftName('<module>', 'A')}`, excerpt(name))
    const shape = entry.shape
    if (shape.length !== 2 || shape[match[2] === 'A' ? 0 : 1] !== rank) {
      const expected = match[2] === 'A' ? `[${rank}, in]` : `[out, ${rank}]`
      throw damaged(place, `${excerpt(name)} of shape ${expected}`, `[${shape.join(', ')}]`)
    }
    const module = match[1]!
    if (pairs.has(module)) continue
    const [a, b] = [tensors.get(peftName(module, 'A')), tensors.get(peftName(module, 'B'))]
    if (!a || !b) throw damaged(place, `lora_A and lora_B of ${excerpt(module)}`, `only lora_${a ? 'A' : 'B'}`)
    pairs.set(module, { a, b })
  }
  if (pairs.size === 0)
    throw new CheckpointError(`${place}: expected at least one adapted module, got none`, { path: place })
  return pairs
}
