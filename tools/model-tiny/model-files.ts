import { exportModelFolder, modelWeights, readModelConfig, type WeightSpec } from '@selfplay/ort'
import type { Bpe } from './bpe.js'
import type { ModelShape } from './recipe.js'
import { SPECIAL_TOKENS } from './text/documents.js'
import { createRandom, type Random } from './text/random.js'
import { tokenizerConfig, tokenizerJson } from './tokenizer-files.js'

function modelConfig(shape: ModelShape, vocabSize: number) {
  const endOfText = vocabSize - SPECIAL_TOKENS.length
  return {
    architectures: ['Qwen2ForCausalLM'],
    attention_dropout: 0,
    bos_token_id: null,
    dtype: 'float32',
    eos_token_id: endOfText,
    hidden_act: 'silu',
    hidden_size: shape.hiddenSize,
    initializer_range: shape.initStd,
    intermediate_size: shape.intermediateSize,
    max_position_embeddings: shape.contextLength,
    model_type: 'qwen2',
    num_attention_heads: shape.heads,
    num_hidden_layers: shape.layers,
    num_key_value_heads: shape.kvHeads,
    pad_token_id: endOfText,
    rms_norm_eps: 1e-6,
    rope_theta: shape.ropeTheta,
    tie_word_embeddings: true,
    use_cache: true,
    use_sliding_window: false,
    vocab_size: vocabSize,
  }
}

const weightsOf = (shape: ModelShape, vocabSize: number): WeightSpec[] =>
  modelWeights(readModelConfig(modelConfig(shape, vocabSize)))

const elements = ({ shape }: WeightSpec): number => shape.reduce((product, size) => product * size, 1)

/** Number of parameters of the model. */
export const countParameters = (shape: ModelShape, vocabSize: number): number =>
  weightsOf(shape, vocabSize).reduce((sum, weight) => sum + elements(weight), 0)

/** Box and Muller's normal draws. */
function normal(random: Random): number {
  return Math.sqrt(-2 * Math.log(1 - random.next())) * Math.cos(2 * Math.PI * random.next())
}

/** Norms start at 1, biases at 0, matrices normal; those that write into the residual stream smaller by sqrt(2 layers), as GPT-2 does it. */
function initialValues(weight: WeightSpec, { initStd, layers }: ModelShape, random: Random): Float32Array {
  const values = new Float32Array(elements(weight))
  if (weight.name.endsWith('norm.weight')) return values.fill(1)
  if (weight.name.endsWith('.bias')) return values
  const std = /\.(?:o|down)_proj\.weight$/.test(weight.name) ? initStd / Math.sqrt(2 * layers) : initStd
  for (let i = 0; i < values.length; i++) values[i] = std * normal(random)
  return values
}

const json = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`

/** Writes a Hugging Face folder of an untrained model: Qwen2 architecture, seeded normal weights in float32, the tokenizer. */
export async function writeInitialModel(directory: string, shape: ModelShape, bpe: Bpe, seed: number): Promise<void> {
  const endOfText = bpe.tokens.length
  const vocabSize = endOfText + SPECIAL_TOKENS.length
  const parameters = weightsOf(shape, vocabSize)
  const streamOf = new Map(parameters.map(({ name }, index) => [name, index]))
  await exportModelFolder(directory, {
    config: modelConfig(shape, vocabSize),
    generationConfig: {
      do_sample: true,
      eos_token_id: [endOfText, vocabSize - 1], // the end of a text and the end of a turn
      pad_token_id: endOfText,
    },
    tokenizerFiles: [
      { name: 'tokenizer.json', contents: json(tokenizerJson(bpe, SPECIAL_TOKENS)) },
      {
        name: 'tokenizer_config.json',
        contents: json(tokenizerConfig(bpe, SPECIAL_TOKENS, shape.contextLength)),
      },
    ],
    parameters,
    read: (name) => {
      const stream = streamOf.get(name) ?? 0
      return initialValues(parameters[stream] as WeightSpec, shape, createRandom(seed, stream))
    },
  })
}
