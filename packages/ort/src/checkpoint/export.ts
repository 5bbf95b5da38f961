import { basename } from 'node:path'
import { InvalidInputError } from '@selfplay/engine'
import { ADAPTER_FOLDER, peftName } from './adapter.js'
import type { StagingFolder, WriteOptions } from './atomic.js'
import { MODEL_FOLDER, TOKENIZER_FILE } from './folder.js'
import { parseJsonObject, setJsonField, type JsonValue } from './json.js'
import { writeManifestedFolder } from './manifest.js'
import { storedLength, writeTensors, type TensorSource } from './safetensors-writer.js'

/** A parameter to export: its name in the model's own file layout, and its shape. */
export interface ParameterSpec {
  readonly name: string
  readonly shape: readonly number[]
}

/** Gives a parameter's values, float32, row-major. Called once for each, in order; nothing is held after it was written. */
export type ReadParameter = (name: string) => Float32Array | Promise<Float32Array>

/** A JSON file to write: text goes out to the letter. */
export type JsonSource = string | Readonly<Record<string, JsonValue>>

/** A file of the tokenizer: a path to copy byte for byte, or a name with contents. */
export type TokenizerFile = string | { readonly name: string; readonly contents: string | Uint8Array }

/** A safetensors file of its own in an exported folder, always float32. */
export interface TensorFile {
  /** Name of the file. */
  readonly name: string
  readonly parameters: readonly ParameterSpec[]
  readonly read: ReadParameter
  /** Goes into its header. */
  readonly metadata: Readonly<Record<string, string>>
}

async function writeTensorFiles(
  staging: StagingFolder,
  files: readonly TensorFile[],
  options: WriteOptions,
): Promise<void> {
  for (const { name, parameters, read, metadata } of files) {
    const tensors = parameters.map((spec): TensorSource<'F32'> => ({
      ...spec,
      dtype: 'F32',
      read: () => read(spec.name),
    }))
    const write = { ...(options.signal && { signal: options.signal }), metadata }
    await staging.write(name, (sink) => writeTensors(sink, tensors, write))
  }
}

export interface ModelExport {
  /** config.json. Its `dtype` (and `torch_dtype`, where it has one) is set to what is written. */
  readonly config: JsonSource
  readonly generationConfig?: JsonSource | undefined
  readonly tokenizerFiles: readonly TokenizerFile[]
  /** In the order of the file. Tied weights come once, under the name that the architecture keeps. */
  readonly parameters: readonly ParameterSpec[]
  readonly read: ReadParameter
  /** What lies beside the model, e.g. a value head. Default none. */
  readonly beside?: readonly TensorFile[]
}

export interface ExportModelOptions extends WriteOptions {
  /** Default `float32`. */
  readonly dtype?: 'float32' | 'float16'
  /** Weights above it are split into shards with an index. A tensor is never split. Default 5e9 bytes. */
  readonly maxShardBytes?: number
}

const toText = (source: JsonSource, name: string): string => {
  if (typeof source !== 'string') return `${JSON.stringify(source, null, 2)}\n`
  parseJsonObject(source, name)
  return source
}

/**
 * Writes a model folder that transformers (and {@link openModelFolder}) reads, whole or not at all, with a manifest.
 *
 * @throws CheckpointError when the disk refuses; InvalidInputError when a tensor does not fit its shape or float16.
 */
export async function exportModelFolder(
  directory: string,
  model: ModelExport,
  options: ExportModelOptions = {},
): Promise<void> {
  const { dtype = 'float32', maxShardBytes = 5e9 } = options
  if (!(maxShardBytes > 0)) {
    throw new InvalidInputError(`maxShardBytes must be > 0, got ${maxShardBytes}`, { got: maxShardBytes })
  }
  let config = setJsonField(toText(model.config, 'config.json'), 'dtype', dtype)
  if ('torch_dtype' in parseJsonObject(config, 'config.json')) config = setJsonField(config, 'torch_dtype', dtype)
  const tensors = model.parameters.map(({ name, shape }): TensorSource<'F32' | 'F16'> => {
    return { name, shape, dtype: dtype === 'float16' ? 'F16' : 'F32', read: () => model.read(name) }
  })
  await writeManifestedFolder(
    directory,
    MODEL_FOLDER,
    async (staging) => {
      await staging.write('config.json', config)
      if (model.generationConfig !== undefined) {
        await staging.write('generation_config.json', toText(model.generationConfig, 'generation_config.json'))
      }
      await writeTokenizer(staging, model.tokenizerFiles)
      await writeShards(staging, splitShards(tensors, maxShardBytes), options)
      await writeTensorFiles(staging, model.beside ?? [], options)
    },
    options,
  )
}

async function writeTokenizer(staging: StagingFolder, files: readonly TokenizerFile[]): Promise<void> {
  for (const file of files) {
    const name = typeof file === 'string' ? basename(file) : file.name
    if (!TOKENIZER_FILE.test(name)) {
      throw new InvalidInputError(`expected a tokenizer file such as tokenizer.json, got "${name}"`, { file: name })
    }
    if (typeof file === 'string') await staging.copy(name, file)
    else await staging.write(name, file.contents)
  }
}

function splitShards<T extends TensorSource>(tensors: readonly T[], maxBytes: number): T[][] {
  const shards: T[][] = [[]]
  let filled = 0
  for (const tensor of tensors) {
    const length = storedLength(tensor)
    if (filled > 0 && filled + length > maxBytes) {
      shards.push([])
      filled = 0
    }
    shards.at(-1)!.push(tensor)
    filled += length
  }
  return shards
}

async function writeShards(
  staging: StagingFolder,
  shards: readonly TensorSource[][],
  options: WriteOptions,
): Promise<void> {
  const write = { ...(options.signal && { signal: options.signal }), metadata: { format: 'pt' } }
  if (shards.length === 1) {
    await staging.write('model.safetensors', (sink) => writeTensors(sink, shards[0]!, write))
    return
  }
  const weightMap: [string, string][] = []
  const digits = (value: number) => String(value).padStart(5, '0')
  for (const [at, tensors] of shards.entries()) {
    const file = `model-${digits(at + 1)}-of-${digits(shards.length)}.safetensors`
    await staging.write(file, (sink) => writeTensors(sink, tensors, write))
    for (const { name } of tensors) weightMap.push([name, file])
  }
  const index = {
    metadata: { total_size: shards.flat().reduce((sum, tensor) => sum + storedLength(tensor), 0) },
    weight_map: Object.fromEntries(weightMap),
  }
  await staging.write('model.safetensors.index.json', `${JSON.stringify(index, null, 2)}\n`)
}

export interface AdapterExport {
  readonly rank: number
  readonly alpha: number
  /** Last parts of the names of the adapted modules, e.g. `q_proj`. */
  readonly targetModules: readonly string[]
  /** Folder or hub name of the base model, for PEFT to find it. */
  readonly baseModel: string
  /** Adapted modules by their name in the base model, with the sizes of their linear layers. */
  readonly modules: readonly { readonly name: string; readonly inFeatures: number; readonly outFeatures: number }[]
  /** A [rank, in] and B [out, rank] of a module, float32, row-major. */
  readonly read: (module: string, side: 'A' | 'B') => Float32Array | Promise<Float32Array>
  readonly tokenizerFiles?: readonly TokenizerFile[]
  /** As of {@link ModelExport}. */
  readonly beside?: readonly TensorFile[]
}

/**
 * Writes a LoRA adapter folder that PEFT (and {@link openAdapterFolder}) reads, whole or not at all, with a manifest.
 *
 * @throws CheckpointError when the disk refuses; InvalidInputError when a matrix does not fit.
 */
export async function exportAdapterFolder(
  directory: string,
  adapter: AdapterExport,
  options: WriteOptions = {},
): Promise<void> {
  const { rank, alpha, targetModules, baseModel, modules, read, tokenizerFiles = [] } = adapter
  const config = {
    base_model_name_or_path: baseModel,
    bias: 'none',
    fan_in_fan_out: false,
    inference_mode: true,
    init_lora_weights: true,
    lora_alpha: alpha,
    lora_dropout: 0,
    modules_to_save: null,
    peft_type: 'LORA',
    r: rank,
    target_modules: targetModules,
    task_type: 'CAUSAL_LM',
    use_dora: false,
    use_rslora: false,
  }
  const tensors = modules.flatMap(({ name, inFeatures, outFeatures }): TensorSource<'F32'>[] => [
    { name: peftName(name, 'A'), shape: [rank, inFeatures], dtype: 'F32', read: () => read(name, 'A') },
    { name: peftName(name, 'B'), shape: [outFeatures, rank], dtype: 'F32', read: () => read(name, 'B') },
  ])
  await writeManifestedFolder(
    directory,
    ADAPTER_FOLDER,
    async (staging) => {
      await staging.write('adapter_config.json', `${JSON.stringify(config, null, 2)}\n`)
      await writeTokenizer(staging, tokenizerFiles)
      const write = { ...(options.signal && { signal: options.signal }), metadata: { format: 'pt' } }
      await staging.write('adapter_model.safetensors', (sink) => writeTensors(sink, tensors, write))
      await writeTensorFiles(staging, adapter.beside ?? [], options)
    },
    options,
  )
}
