import type { Graph, Value } from '../graph/index.js'
import type { ModelConfig } from './config.js'
import { type DecoderWeights, Layers } from './layers.js'
import type { RopeTables } from './rope.js'
import { EMBEDDING, layerPrefix } from './weights.js'

/** What a decoder graph reads besides its weights. */
export interface DecoderInputs {
  /** Input `tokens`, int32 [batch, seq]. Rows that are shorter are padded on the right, with any id. */
  readonly tokens: Value
  /** Inputs `rope_cos` and `rope_sin`, float32 [seq, headDim / 2]: {@link ropeRows} of the tables. */
  readonly cos: Value
  readonly sin: Value
  /** By window: {@link attentionMask} as an input, float32 [seq, seq], called {@link maskName}. */
  readonly masks: ReadonlyMap<number | null, Value>
}

/** Name of the input that holds the mask of a window. */
export function maskName(window: number | null): string {
  return window === null ? 'mask' : `mask_${window}`
}

/** Added where a query must not see a key: far below any score, and finite. */
const HIDDEN = -1e9

/**
 * What is added to attention scores, float32 [seq, seq]: 0 where query i sees key j, -1e9 where it does not. It sees
 * j <= i and, with a window, j > i - window. Padding on the right needs no more: no real token sees it.
 */
export function attentionMask(seq: number, window: number | null): Float32Array {
  const mask = new Float32Array(seq * seq).fill(HIDDEN)
  for (let i = 0; i < seq; i++) {
    const first = window === null ? 0 : Math.max(0, i - window + 1)
    mask.fill(0, i * seq + first, i * seq + i + 1)
  }
  return mask
}

/** Declares the inputs of a decoder, with the symbols `batch` and `seq`. */
export function decoderInputs(g: Graph, config: ModelConfig): DecoderInputs {
  const half = config.headDim / 2
  return {
    tokens: g.input('tokens', 'int32', ['batch', 'seq']),
    cos: g.input('rope_cos', 'float32', ['seq', half]),
    sin: g.input('rope_sin', 'float32', ['seq', half]),
    masks: new Map(
      [...new Set(config.windows)].map((window) => [window, g.input(maskName(window), 'float32', ['seq', 'seq'])]),
    ),
  }
}

/**
 * The decoder for training: from tokens to the residual stream before the final norm, float32 [batch*seq, hidden].
 *
 * @param rows indices into batch*seq, int32 [n]. When given, the result is those rows only, [n, hidden], and the last
 * layer computes nothing but attention for the others.
 */
export function decoder(
  g: Graph,
  config: ModelConfig,
  inputs: DecoderInputs,
  weights: DecoderWeights,
  rows?: Value,
): Value {
  const layers = new Layers(g, config, weights)
  const attention = new Attention(g, config, inputs)
  const embedding = layers.weight(EMBEDDING, [config.vocabSize, config.hiddenSize])
  let x = g.gather(embedding, g.reshape(inputs.tokens, [-1]))
  for (let layer = 0; layer < config.numLayers; layer++) {
    const normed = layers.norm(x, `${layerPrefix(layer)}.input_layernorm.weight`)
    const attended = attention.attend(layers.projections(normed, layer), config.windows[layer] ?? null)
    const pick = (value: Value) => (rows && layer === config.numLayers - 1 ? g.gather(value, rows) : value)
    x = layers.afterAttention(pick(x), pick(attended), layer)
  }
  return x
}

/**
 * Softmax attention from its parts, each of which has a gradient. The query heads that share a key head lie along one
 * axis with the positions, so keys and values are never repeated.
 */
class Attention {
  private readonly g: Graph
  private readonly config: ModelConfig
  private readonly inputs: DecoderInputs
  private readonly start: Value
  private readonly queryCos: Value
  private readonly querySin: Value

  constructor(g: Graph, config: ModelConfig, inputs: DecoderInputs) {
    this.g = g
    this.config = config
    this.inputs = inputs
    this.start = g.constant([0], 'int64')
    const scale = 1 / Math.sqrt(config.headDim)
    // Scores are scaled through the rotation of the queries, which costs nothing per token.
    this.queryCos = g.mul(inputs.cos, scale)
    this.querySin = g.mul(inputs.sin, scale)
  }

  /** q: [batch*seq, heads * head], k and v: [batch*seq, kv heads * head] -> [batch*seq, heads * head]. */
  attend({ q, k, v }: { readonly q: Value; readonly k: Value; readonly v: Value }, window: number | null): Value {
    const { g } = this
    const { numHeads, numKvHeads, headDim } = this.config
    const [batch, seq] = this.inputs.tokens.shape as [string, string]
    const group = numHeads / numKvHeads
    const queries = this.heads(this.rotate(q, numHeads, this.queryCos, this.querySin), numHeads, [0, 2, 1, 3])
    const keys = this.heads(this.rotate(k, numKvHeads, this.inputs.cos, this.inputs.sin), numKvHeads, [0, 2, 3, 1])
    const values = this.heads(v, numKvHeads, [0, 2, 1, 3])
    const grouped = g.reshape(queries, [batch, numKvHeads, `${group}*${seq}`, headDim])
    const scores = g.reshape(g.matmul(grouped, keys), [batch, numKvHeads, group, seq, seq])
    const probabilities = g.softmax(g.add(scores, this.inputs.masks.get(window)!))
    const mixed = g.matmul(g.reshape(probabilities, [batch, numKvHeads, `${group}*${seq}`, seq]), values)
    const split = g.transpose(g.reshape(mixed, [batch, numHeads, seq, headDim]), [0, 2, 1, 3])
    return g.reshape(split, [`${batch}*${seq}`, numHeads * headDim])
  }

  private rotate(x: Value, heads: number, cos: Value, sin: Value): Value {
    const [batch, seq] = this.inputs.tokens.shape as [string, string]
    const sequences = this.g.reshape(x, [batch, seq, heads * this.config.headDim])
    return this.g.rotaryEmbedding(sequences, this.start, cos, sin, { numHeads: heads })
  }

  /** [batch, seq, heads, head], permuted. */
  private heads(x: Value, heads: number, permutation: readonly number[]): Value {
    const [batch, seq] = this.inputs.tokens.shape as [string, string]
    return this.g.transpose(this.g.reshape(x, [batch, seq, heads, this.config.headDim]), permutation)
  }
}

/** The first `seq` rows of a table, as its graph input wants them. A view. */
export function ropeRows({ cos, sin, positions }: RopeTables, seq: number): { cos: Float32Array; sin: Float32Array } {
  const half = cos.length / positions
  return { cos: cos.subarray(0, seq * half), sin: sin.subarray(0, seq * half) }
}
