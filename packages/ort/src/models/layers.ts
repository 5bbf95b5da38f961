import type { Graph, Value } from '../graph/index.js'
import type { ModelConfig } from './config.js'
import { layerLinears, layerPrefix, type LinearName, type LinearSpec, type WeightSpec } from './weights.js'

/**
 * How each weight enters a graph: as a parameter, a frozen weight, an input, or computed from others. float32. Asked for
 * the same weight again, it gives the same value.
 */
export type WeightSource = (spec: WeightSpec) => Value

/** A low-rank update of a linear layer (Hu et al. 2021, LoRA): W + scale * B A. */
export interface LoraPair {
  /** float32 [rank, in] */
  readonly a: Value
  /** float32 [out, rank] */
  readonly b: Value
  /** alpha / rank. */
  readonly scale: number
}

/** The low-rank update of a linear layer, or undefined for none. */
export type LoraSource = (linear: LinearSpec) => LoraPair | undefined

/** Where a decoder takes its weights from. */
export interface DecoderWeights {
  readonly weight: WeightSource
  readonly lora?: LoraSource
  /**
   * Rows `start` to `end` of the head matrix as a value of their own, for heads in chunks. Default: a slice of the
   * whole matrix, which costs a copy per run.
   */
  readonly headRows?: (spec: WeightSpec, range: { readonly start: number; readonly end: number }) => Value
}

/** Builds the parts of a decoder into one graph. Activations are matrices [tokens, features]. */
export class Layers {
  readonly g: Graph
  readonly config: ModelConfig
  readonly weights: DecoderWeights

  constructor(g: Graph, config: ModelConfig, weights: DecoderWeights) {
    this.g = g
    this.config = config
    this.weights = weights
  }

  weight(name: string, shape: readonly number[]): Value {
    return this.weights.weight({ name, shape })
  }

  /** x W^T + b, plus scale * (x A^T) B^T where there is a low-rank update. x: [tokens, in] -> [tokens, out]. */
  linear(x: Value, spec: LinearSpec): Value {
    const { name, inFeatures, outFeatures } = spec
    const bias = spec.bias ? this.weight(`${name}.bias`, [outFeatures]) : undefined
    const transB = { transB: true }
    const base = this.g.gemm(x, this.weight(`${name}.weight`, [outFeatures, inFeatures]), bias, transB)
    const lora = this.weights.lora?.(spec)
    if (!lora) return base
    const low = this.g.gemm(x, lora.a, undefined, transB)
    return this.g.gemm(low, lora.b, base, { transB: true, alpha: lora.scale })
  }

  /** RMS norm (Zhang and Sennrich 2019) over the last axis. */
  norm(x: Value, name: string): Value {
    const size = x.shape.at(-1) as number
    return this.g.rmsNorm(x, this.weight(name, [size]), { epsilon: this.config.rmsNormEps })
  }

  /** The RMS norm of each head that Qwen3 puts on queries and keys; x as it came elsewhere. [tokens, heads * head] */
  headNorm(x: Value, name: string): Value {
    if (!this.config.qkNorm) return x
    return this.g.reshape(this.norm(this.g.reshape(x, [-1, this.config.headDim]), name), x.shape)
  }

  /** Queries, keys and values of one layer before rotation, from normed activations: each [tokens, heads * head]. */
  projections(x: Value, layer: number): { readonly q: Value; readonly k: Value; readonly v: Value } {
    const { q_proj, k_proj, v_proj } = this.linears(layer)
    const prefix = `${layerPrefix(layer)}.self_attn`
    return {
      q: this.headNorm(this.linear(x, q_proj), `${prefix}.q_norm.weight`),
      k: this.headNorm(this.linear(x, k_proj), `${prefix}.k_norm.weight`),
      v: this.linear(x, v_proj),
    }
  }

  /** Everything after attention: output projection, residual, gated MLP (SwiGLU, Shazeer 2020), residual. */
  afterAttention(residual: Value, attended: Value, layer: number): Value {
    const { g } = this
    const { o_proj, gate_proj, up_proj, down_proj } = this.linears(layer)
    const middle = g.add(residual, this.linear(attended, o_proj))
    const x = this.norm(middle, `${layerPrefix(layer)}.post_attention_layernorm.weight`)
    const gated = g.mul(g.silu(this.linear(x, gate_proj)), this.linear(x, up_proj))
    return g.add(middle, this.linear(gated, down_proj))
  }

  private linears(layer: number): Record<LinearName, LinearSpec> {
    return layerLinears(this.config, layer)
  }
}
