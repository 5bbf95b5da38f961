import type { Dim, Graph, Value } from '../graph/index.js'
import type { ModelConfig } from './config.js'

/** Keys (rotated) and values of one layer, float32 [rows, kv heads, length, cache head]. */
export interface LayerCache {
  readonly key: Value
  readonly value: Value
}

/** What all layers of a decoding graph share. */
export interface CacheInputs {
  readonly batch: Dim
  readonly seq: Dim
  /** int32 [batch]: number of tokens of each row, new ones included, minus 1. */
  readonly lengths: Value
  /** int32 scalar: the largest of `lengths`, plus 1. */
  readonly totalLength: Value
  /** float32 [positions, headDim / 2] */
  readonly cos: Value
  readonly sin: Value
  /** int64 [batch, seq] or [1], as RotaryEmbedding takes it: where the new tokens stand. */
  readonly positions: Value
}

/** What GroupQueryAttention wants of a head's size; 16 where it is to rotate as well. */
const HEAD_MULTIPLE = 8
const ROTATED_MULTIPLE = 16

/** Head size of the cache: that of the model, rounded up to what the attention kernel takes. */
export function cacheHeadDim({ headDim }: Pick<ModelConfig, 'headDim'>): number {
  return Math.ceil(headDim / HEAD_MULTIPLE) * HEAD_MULTIPLE
}

/** Attention over a KV cache, by com.microsoft::GroupQueryAttention. */
export class CachedAttention {
  private readonly g: Graph
  private readonly config: ModelConfig
  private readonly inputs: CacheInputs

  constructor(g: Graph, config: ModelConfig, inputs: CacheInputs) {
    this.g = g
    this.config = config
    this.inputs = inputs
  }

  /**
   * q: [tokens, heads * head], k and v: [tokens, kv heads * head], not yet rotated. Without a past, the present is
   * what the new tokens make; with one, it is the past's own memory.
   */
  attend(
    { q, k, v }: { readonly q: Value; readonly k: Value; readonly v: Value },
    window: number | null,
    past: LayerCache | undefined,
  ): { readonly attended: Value; readonly present: LayerCache } {
    const { g, config } = this
    const { lengths, totalLength, cos, sin } = this.inputs
    const { numHeads, numKvHeads, headDim } = config
    const inKernel = headDim % ROTATED_MULTIPLE === 0
    const before = (x: Value, heads: number, rotated: boolean) => {
      const turned = rotated && !inKernel ? this.rotate(x, heads) : this.sequences(x)
      return this.sequences(this.resize(turned, headDim, cacheHeadDim(config)))
    }
    const { output, presentKey, presentValue } = g.groupQueryAttention(
      {
        query: before(q, numHeads, true),
        key: before(k, numKvHeads, true),
        value: before(v, numKvHeads, false),
        ...(past && { pastKey: past.key, pastValue: past.value }),
        lengths,
        totalLength,
        ...(inKernel && { cos, sin }),
      },
      { numHeads, kvNumHeads: numKvHeads, localWindowSize: window ?? -1, scale: 1 / Math.sqrt(headDim) },
    )
    const attended = g.reshape(this.resize(output, cacheHeadDim(config), headDim), q.shape)
    return { attended, present: { key: presentKey, value: presentValue } }
  }

  private sequences(x: Value): Value {
    const { batch, seq } = this.inputs
    if (x.shape.length === 3) return x
    return this.g.reshape(x, [batch, seq, x.shape[1]!])
  }

  private rotate(x: Value, heads: number): Value {
    const { positions, cos, sin } = this.inputs
    return this.g.rotaryEmbedding(this.sequences(x), positions, cos, sin, { numHeads: heads })
  }

  /** Pads each head with zeros, or takes them off again: a product with part of an identity matrix, which is exact. */
  private resize(x: Value, from: number, to: number): Value {
    if (from === to) return x
    const { g } = this
    const { batch, seq } = this.inputs
    const identity = Float32Array.from({ length: from * to }, (_, i) => (Math.floor(i / to) === i % to ? 1 : 0))
    const resized = g.gemm(g.reshape(x, [-1, from]), g.constant(identity, 'float32', [from, to]))
    return g.reshape(resized, [batch, seq, ((x.shape.at(-1) as number) / from) * to])
  }
}
