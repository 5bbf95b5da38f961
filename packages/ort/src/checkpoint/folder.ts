import { readdir } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { CheckpointError, type CallOptions } from '@selfplay/engine'
import type { WeightFile } from '../graph/index.js'
import { recoverFolder } from './atomic.js'
import { excerpt, isObject, readJsonObject, type JsonObject } from './json.js'
import { readManifest, verifyFiles, type FolderKind, type VerifyOptions } from './manifest.js'
import { innerPath } from './names.js'
import { damaged, systemCode, systemFailure } from './problem.js'
import {
  openSafetensors,
  readTensor,
  requireTensor,
  weightFile,
  type SafetensorsFile,
  type TensorEntry,
} from './safetensors.js'

/** Model folders that this package writes carry a manifest of this kind; folders from elsewhere have none. */
export const MODEL_FOLDER: FolderKind = { kind: 'model', formatVersion: 1 }

/** Files that belong to a tokenizer, by name. */
export const TOKENIZER_FILE =
  /^(tokenizer[\w.-]*\.(json|model)|special_tokens_map\.json|added_tokens\.json|vocab\.(json|txt)|merges\.txt|chat_template\.(jinja|json))$/

/** Float tensors by name, read on demand. */
export interface TensorStore {
  /** Every tensor, by name. */
  readonly tensors: ReadonlyMap<string, TensorEntry>
  /**
   * A tensor of any stored float width as float32, into `into` when given ({@link readTensor}).
   * @throws CheckpointError when there is none of that name, or its file changed.
   */
  read(name: string, options?: CallOptions & { readonly into?: Float32Array }): Promise<Float32Array>
  /** Where a tensor lies if it is stored as float32 and can be mapped from its file; else undefined: read it. */
  file(name: string): WeightFile | undefined
}

/** A Hugging Face model folder. */
export interface ModelFolder extends TensorStore {
  /** Absolute. */
  readonly path: string
  readonly config: JsonObject
  /** config.json to the letter; what an export starts from. */
  readonly configText: string
  /** generation_config.json, when there is one. */
  readonly generationConfig: JsonObject | undefined
  readonly generationConfigText: string | undefined
  /** Paths of the tokenizer's files, sorted. */
  readonly tokenizerFiles: readonly string[]
}

const HOW_TO =
  'Give a folder with config.json and model.safetensors, as transformers saves them, or the name of a model on the hub'

/** @internal A store over entries; `place` names the folder in errors. */
export function tensorStore(place: string, tensors: ReadonlyMap<string, TensorEntry>): TensorStore {
  return {
    tensors,
    read: async (name, options) => readTensor(requireTensor(tensors, name, place), options),
    file: (name) => weightFile(requireTensor(tensors, name, place)),
  }
}

/** @internal Names of the files of a folder. */
export async function listFolder(path: string, howTo: string, options: CallOptions): Promise<Set<string>> {
  await recoverFolder(path, options)
  try {
    return new Set(await readdir(path))
  } catch (error) {
    const code = systemCode(error)
    if (code === 'ENOENT') throw damaged(path, 'a folder', 'nothing of that name', howTo)
    if (code === 'ENOTDIR') throw damaged(path, 'a folder', 'a file', howTo)
    throw systemFailure(error, 'list', path)
  }
}

/**
 * Opens a model folder: `config.json`, `generation_config.json`, tokenizer files, and the headers of `model.safetensors` or
 * of the shards that `model.safetensors.index.json` names. Weights stay on disk until they are read.
 *
 * A folder that selfplay wrote is first checked against its manifest (`verify`: hashes by default, or sizes only).
 *
 * @throws CheckpointError when the folder, its config or its weights are missing or damaged, or an index reaches outside.
 */
export async function openModelFolder(directory: string, options: VerifyOptions = {}): Promise<ModelFolder> {
  const path = resolve(directory)
  const names = await listFolder(path, HOW_TO, options)
  if (!names.has('config.json')) throw damaged(path, 'a model folder with config.json', describeFiles(names), HOW_TO)
  const manifest = await readManifest(path, MODEL_FOLDER, options)
  if (manifest) await verifyFiles(path, manifest, options)
  const config = await readJsonObject(join(path, 'config.json'), options)
  const generation = names.has('generation_config.json')
    ? await readJsonObject(join(path, 'generation_config.json'), options)
    : undefined
  const tokenizerFiles = [...names].filter((name) => TOKENIZER_FILE.test(name)).sort()
  return {
    path,
    config: config.value,
    configText: config.text,
    generationConfig: generation?.value,
    generationConfigText: generation?.text,
    tokenizerFiles: tokenizerFiles.map((name) => join(path, name)),
    ...tensorStore(path, await openWeights(path, names, options)),
  }
}

function describeFiles(names: ReadonlySet<string>): string {
  const shown = [...names].sort().slice(0, 5).map(excerpt)
  return names.size === 0
    ? 'an empty folder'
    : `${shown.join(', ')}${names.size > 5 ? ` and ${names.size - 5} more` : ''}`
}

async function openWeights(path: string, names: ReadonlySet<string>, options: CallOptions) {
  if (names.has('model.safetensors')) return (await openSafetensors(join(path, 'model.safetensors'), options)).tensors
  if (names.has('model.safetensors.index.json')) return openShards(path, names, options)
  const pickled = [...names].some((name) => /\.(bin|pt|pth|ckpt)$/.test(name))
  const advice = pickled
    ? 'Pickled weights are never read, since opening one runs code: save the model again as safetensors'
    : HOW_TO
  throw damaged(path, 'model.safetensors or model.safetensors.index.json', describeFiles(names), advice)
}

async function openShards(
  folder: string,
  names: ReadonlySet<string>,
  options: CallOptions,
): Promise<Map<string, TensorEntry>> {
  const index = join(folder, 'model.safetensors.index.json')
  const weightMap = readWeightMap((await readJsonObject(index, options)).value, index)
  const shards = new Map<string, SafetensorsFile>()
  for (const file of new Set(weightMap.values())) {
    if (!file.includes('/') && !names.has(file)) {
      throw damaged(
        folder,
        `the shard ${excerpt(file)} that the index names`,
        'no such file',
        'Download or copy the folder again',
      )
    }
    shards.set(file, await openSafetensors(join(folder, file), options))
  }
  const tensors = new Map<string, TensorEntry>()
  for (const [name, file] of weightMap) {
    const shard = shards.get(file)!
    tensors.set(name, requireTensor(shard.tensors, name, shard.path))
  }
  return tensors
}

/**
 * @internal The checked `weight_map` of an index: tensor name to file name.
 * @throws CheckpointError when it is missing, holds anything but names, or names a file outside the folder.
 */
export function readWeightMap(index: JsonObject, place: string): Map<string, string> {
  if (!isObject(index.weight_map))
    throw damaged(place, 'an object "weight_map"', excerpt(JSON.stringify(index.weight_map) ?? 'none'))
  const entries = Object.entries(index.weight_map)
  for (const [name, file] of entries) {
    if (typeof file !== 'string')
      throw damaged(place, `a file name for ${excerpt(name)}`, excerpt(JSON.stringify(file)))
    innerPath(file, place)
    if (!file.endsWith('.safetensors')) throw damaged(place, 'shards that are .safetensors files', excerpt(file))
  }
  if (entries.length === 0)
    throw new CheckpointError(`${place}: expected at least one tensor in "weight_map", got none`, { path: place })
  return new Map(entries as [string, string][])
}
