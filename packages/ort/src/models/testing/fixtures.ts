import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import {
  type ModelFolder,
  openModelFolder,
  openSafetensors,
  peftName,
  readRawTensor,
  readTensor,
} from '../../checkpoint/index.js'
import type { DType, Graph, SerialisedModel } from '../../graph/index.js'
import type { HostArrays, Runtime, SessionOptions, Tensor } from '../../runtime/index.js'
import { type ModelConfig, readModelConfig } from '../config.js'
import { attentionMask, maskName, ropeRows } from '../decoder.js'
import type { DecoderWeights, LoraSource } from '../layers.js'
import { ropeTables } from '../rope.js'

export const FIXTURES = ['qwen2', 'qwen3', 'llama3', 'mistral'] as const

const folderOf = (name: string) => fileURLToPath(new URL(`../../../../../fixtures/models/${name}`, import.meta.url))

/** The numbers beside a fixture's tensors. */
interface ExpectedNumbers {
  readonly lens: readonly number[]
  readonly ce_loss_sum: number
  readonly greedy_prompt: readonly number[]
  readonly greedy_tokens: readonly number[]
  readonly greedy_logprobs: readonly number[]
  readonly [key: string]: unknown
}

/** A small model with golden numbers, read into memory. */
export interface Fixture {
  readonly name: string
  readonly path: string
  readonly config: ModelConfig
  readonly folder: ModelFolder
  readonly weights: ReadonlyMap<string, Float32Array>
  /** Golden tensors: float32 ones by name. */
  readonly golden: ReadonlyMap<string, Float32Array>
  readonly ids: Int32Array
  readonly batch: number
  readonly seq: number
  readonly numbers: ExpectedNumbers
}

export async function loadFixture(name: string): Promise<Fixture> {
  const path = folderOf(name)
  const folder = await openModelFolder(path)
  const expected = await openSafetensors(`${path}/expected.safetensors`)
  const golden = new Map<string, Float32Array>()
  for (const [key, entry] of expected.tensors) if (entry.dtype === 'F32') golden.set(key, await readTensor(entry))
  const weights = new Map<string, Float32Array>()
  for (const key of folder.tensors.keys()) weights.set(key, await folder.read(key))
  const ids = expected.tensors.get('input_ids')!
  const [batch, seq] = ids.shape as [number, number]
  return {
    name,
    path,
    config: readModelConfig(folder.config, folder.generationConfig),
    folder,
    weights,
    golden,
    ids: await readRawTensor(ids, 'I32'),
    batch,
    seq,
    numbers: JSON.parse(await readFile(`${path}/expected.json`, 'utf8')) as ExpectedNumbers,
  }
}

/** Every weight as a parameter, each declared once. */
export function parameterWeights(g: Graph): DecoderWeights {
  return { weight: ({ name, shape }) => g.named(name) ?? g.parameter(name, 'float32', shape) }
}

/** Every weight frozen: external to the model, given to the session by name. */
export function frozenWeights(g: Graph): DecoderWeights {
  return { weight: ({ name, shape }) => g.named(name) ?? g.weight(name, 'float32', shape) }
}

/** Memory for {@link frozenWeights}. */
export function weightTensors(runtime: Runtime, fixture: Fixture): Record<string, Tensor> {
  return Object.fromEntries(
    [...fixture.weights].map(([name, data]) => [
      name,
      runtime.tensor('float32', data, fixture.folder.tensors.get(name)!.shape),
    ]),
  )
}

/** The fixture's adapter: its matrices as parameters by PEFT name, and their numbers for graphs and as tensors. */
export async function loadAdapter(fixture: Fixture) {
  const { tensors } = await openSafetensors(`${fixture.path}/lora/adapter_model.safetensors`)
  const matrices = new Map<string, Float32Array>()
  for (const [key, entry] of tensors) matrices.set(key, await readTensor(entry))
  const side = (g: Graph, linear: string, which: 'A' | 'B') => {
    const key = peftName(linear, which)
    return g.named(key) ?? g.parameter(key, 'float32', tensors.get(key)!.shape)
  }
  const lora = (g: Graph): LoraSource => {
    return ({ name }) => ({ a: side(g, name, 'A'), b: side(g, name, 'B'), scale: 8 / 4 })
  }
  const adapterTensors = (runtime: Runtime): Record<string, Tensor> =>
    Object.fromEntries(
      [...matrices].map(([key, data]) => [key, runtime.tensor('float32', data, tensors.get(key)!.shape)]),
    )
  return { matrices, lora, adapterTensors }
}

/** What a test feeds: numbers, with the shape where it does not follow from the graph. */
export type Feed = Float32Array | Int32Array

/** Feeds for the inputs of a decoder at a batch of sequences. */
export function decoderFeeds(config: ModelConfig, tokens: Int32Array, seq: number): Record<string, Feed> {
  const { cos, sin } = ropeRows(ropeTables(config, seq), seq)
  const masks = [...new Set(config.windows)].map((window) => [maskName(window), attentionMask(seq, window)])
  return { tokens, rope_cos: cos, rope_sin: sin, ...(Object.fromEntries(masks) as Record<string, Feed>) }
}

/** Runs a model once. `dims` gives the sizes of its symbols. Outputs come back as numbers. */
export async function runOnce(
  runtime: Runtime,
  model: SerialisedModel,
  feeds: Readonly<Record<string, Feed>>,
  dims: Readonly<Record<string, number>>,
  options?: SessionOptions,
): Promise<Record<string, Float32Array>> {
  const session = await runtime.createSession(model, options)
  try {
    const inputs = feedTensors(runtime, model, feeds, dims)
    const outputs = await session.run(inputs, Object.fromEntries(model.outputs.map(({ name }) => [name, null])))
    const read = await Promise.all(
      Object.entries(outputs).map(async ([name, tensor]) => [name, await tensor.read()] as const),
    )
    return Object.fromEntries(read) as Record<string, Float32Array>
  } finally {
    await session.dispose()
  }
}

/** The inputs of a model as tensors. */
function feedTensors(
  runtime: Runtime,
  model: SerialisedModel,
  feeds: Readonly<Record<string, Feed>>,
  dims: Readonly<Record<string, number>>,
): Record<string, Tensor> {
  const size = (dim: number | string) =>
    typeof dim === 'number' ? dim : dim.split('*').reduce((product, part) => product * (dims[part] ?? Number(part)), 1)
  return Object.fromEntries(
    model.inputs.map(({ name, dtype, shape }) => {
      const data = feeds[name]
      if (!data) throw new Error(`the test feeds no ${name}`)
      return [name, runtime.tensor(dtype, data as HostArrays[DType], shape.map(size))]
    }),
  )
}

/** Norm of the difference over the norm of what is wanted; or the norm of the difference alone where that is < 1e-5. */
export function distance(got: ArrayLike<number>, want: ArrayLike<number>): number {
  if (got.length !== want.length) throw new Error(`expected ${want.length} numbers, got ${got.length}`)
  let difference = 0
  let norm = 0
  for (let i = 0; i < want.length; i++) {
    difference += (got[i]! - want[i]!) ** 2
    norm += want[i]! ** 2
  }
  return norm < 1e-10 ? Math.sqrt(difference) : Math.sqrt(difference / norm)
}
