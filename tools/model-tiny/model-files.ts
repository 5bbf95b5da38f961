import { mkdir, open, rename } from 'node:fs/promises'
import { join } from 'node:path'
import type { Bpe } from './bpe.js'
import type { ModelShape } from './recipe.js'
import { SPECIAL_TOKENS } from './text/documents.js'
import { createRandom, type Random } from './text/random.js'
import { tokenizerConfig, tokenizerJson } from './tokenizer-files.js'

interface Tensor {
  readonly name: string
  readonly shape: readonly number[]
  /** Standard deviation; `ones` and `zeros` are constants. */
  readonly init: number | 'ones' | 'zeros'
}

/** The parameters of a Qwen2 decoder with tied embeddings, and how they start: projections back into the residual stream smaller by sqrt(2 layers). */
function parametersOf(shape: ModelShape, vocabSize: number): Tensor[] {
  const { hiddenSize: hidden, intermediateSize: inner, layers, heads, kvHeads, initStd } = shape
  const kv = (hidden / heads) * kvHeads
  const residualStd = initStd / Math.sqrt(2 * layers)
  const layer = (index: number): Tensor[] => {
    const at = `model.layers.${index}`
    return [
      { name: `${at}.input_layernorm.weight`, shape: [hidden], init: 'ones' },
      { name: `${at}.self_attn.q_proj.weight`, shape: [hidden, hidden], init: initStd },
      { name: `${at}.self_attn.q_proj.bias`, shape: [hidden], init: 'zeros' },
      { name: `${at}.self_attn.k_proj.weight`, shape: [kv, hidden], init: initStd },
      { name: `${at}.self_attn.k_proj.bias`, shape: [kv], init: 'zeros' },
      { name: `${at}.self_attn.v_proj.weight`, shape: [kv, hidden], init: initStd },
      { name: `${at}.self_attn.v_proj.bias`, shape: [kv], init: 'zeros' },
      { name: `${at}.self_attn.o_proj.weight`, shape: [hidden, hidden], init: residualStd },
      { name: `${at}.post_attention_layernorm.weight`, shape: [hidden], init: 'ones' },
      { name: `${at}.mlp.gate_proj.weight`, shape: [inner, hidden], init: initStd },
      { name: `${at}.mlp.up_proj.weight`, shape: [inner, hidden], init: initStd },
      { name: `${at}.mlp.down_proj.weight`, shape: [hidden, inner], init: residualStd },
    ]
  }
  return [
    { name: 'model.embed_tokens.weight', shape: [vocabSize, hidden], init: initStd },
    ...Array.from({ length: layers }, (_, index) => layer(index)).flat(),
    { name: 'model.norm.weight', shape: [hidden], init: 'ones' },
  ]
}

const elements = (shape: readonly number[]): number => shape.reduce((product, size) => product * size, 1)

/** Number of parameters of the model. */
export const countParameters = (shape: ModelShape, vocabSize: number): number =>
  parametersOf(shape, vocabSize).reduce((sum, tensor) => sum + elements(tensor.shape), 0)

/** Box and Muller's normal draws. */
function normal(random: Random): number {
  return Math.sqrt(-2 * Math.log(1 - random.next())) * Math.cos(2 * Math.PI * random.next())
}

function initialValues({ shape, init }: Tensor, random: Random): Float32Array {
  const values = new Float32Array(elements(shape))
  if (typeof init !== 'number') return values.fill(init === 'ones' ? 1 : 0)
  for (let i = 0; i < values.length; i++) values[i] = init * normal(random)
  return values
}

/** A safetensors file: length of the header (u64), header (JSON, padded with spaces), float32 data. */
function safetensorsBytes(tensors: readonly Tensor[], seed: number): Buffer {
  let end = 0
  const fields = tensors.map(({ name, shape }) => {
    const begin = end
    end += 4 * elements(shape)
    return [name, { dtype: 'F32', shape, data_offsets: [begin, end] }]
  })
  const json = JSON.stringify(Object.fromEntries(fields))
  const header = Buffer.from(json.padEnd(Math.ceil(json.length / 8) * 8), 'utf8')
  const length = Buffer.alloc(8)
  length.writeBigUInt64LE(BigInt(header.length))
  const data = tensors.map((tensor, index) => Buffer.from(initialValues(tensor, createRandom(seed, index)).buffer))
  return Buffer.concat([length, header, ...data])
}

function modelConfig(shape: ModelShape, vocabSize: number, eos: readonly number[]): Record<string, unknown> {
  return {
    architectures: ['Qwen2ForCausalLM'],
    attention_dropout: 0,
    bos_token_id: null,
    dtype: 'float32',
    eos_token_id: eos[0],
    hidden_act: 'silu',
    hidden_size: shape.hiddenSize,
    initializer_range: shape.initStd,
    intermediate_size: shape.intermediateSize,
    max_position_embeddings: shape.contextLength,
    model_type: 'qwen2',
    num_attention_heads: shape.heads,
    num_hidden_layers: shape.layers,
    num_key_value_heads: shape.kvHeads,
    pad_token_id: eos[0],
    rms_norm_eps: 1e-6,
    rope_theta: shape.ropeTheta,
    tie_word_embeddings: true,
    use_cache: true,
    use_sliding_window: false,
    vocab_size: vocabSize,
  }
}

/** Writes one file whole or not at all. */
export async function writeWhole(path: string, contents: string | Uint8Array): Promise<void> {
  const temporary = `${path}.${process.pid}.tmp`
  const file = await open(temporary, 'w')
  try {
    await file.writeFile(contents, 'utf8')
    await file.sync()
  } finally {
    await file.close()
  }
  await rename(temporary, path)
}

const json = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`

/** Writes a Hugging Face folder of an untrained model: Qwen2 architecture, seeded normal weights in float32, the tokenizer. */
export async function writeInitialModel(directory: string, shape: ModelShape, bpe: Bpe, seed: number): Promise<void> {
  const vocabSize = bpe.tokens.length + SPECIAL_TOKENS.length
  const endOfText = bpe.tokens.length
  const eos = [endOfText, endOfText + SPECIAL_TOKENS.length - 1] // the end of a text and the end of a turn
  await mkdir(directory, { recursive: true })
  await writeWhole(join(directory, 'config.json'), json(modelConfig(shape, vocabSize, eos)))
  await writeWhole(
    join(directory, 'generation_config.json'),
    json({ do_sample: true, eos_token_id: eos, pad_token_id: endOfText }),
  )
  await writeWhole(join(directory, 'tokenizer.json'), json(tokenizerJson(bpe, SPECIAL_TOKENS)))
  await writeWhole(
    join(directory, 'tokenizer_config.json'),
    json(tokenizerConfig(bpe, SPECIAL_TOKENS, shape.contextLength)),
  )
  await writeWhole(join(directory, 'model.safetensors'), safetensorsBytes(parametersOf(shape, vocabSize), seed))
}
