import type { Value } from '../ir.js'
import type { Dim } from '../types.js'
import { TensorBuilder } from './tensor.js'

export interface GroupQueryAttentionInputs {
  /** [batch, seq, heads * head]; or query, key and value packed along the last axis, without key and value. */
  readonly query: Value
  readonly key?: Value
  readonly value?: Value
  /** [batch, kv heads, length, head] */
  readonly pastKey?: Value
  readonly pastValue?: Value
  /** int32 [batch]: sequence length so far, new tokens included, minus 1. */
  readonly lengths: Value
  /** int32 scalar: the longest of those lengths plus 1. */
  readonly totalLength: Value
  readonly cos?: Value
  readonly sin?: Value
  readonly positions?: Value
  readonly bias?: Value
}
export interface GroupQueryAttentionOptions {
  readonly numHeads: number
  readonly kvNumHeads: number
  /** Default 1/sqrt(head size). */
  readonly scale?: number
  /** Default: whether cos and sin are given. */
  readonly doRotary?: boolean
  readonly rotaryInterleaved?: boolean
  readonly localWindowSize?: number
  readonly softcap?: number
  /** Length of the present buffers. Default: that of the past (shared buffers), or the query's without a past. */
  readonly presentLength?: Dim
}

/** Normalisation, attention and losses. */
export abstract class NeuralBuilder extends TensorBuilder {
  /** `(x - mean) / sqrt(variance + epsilon) * scale + bias` over the axes from `axis` on. */
  layerNorm(
    x: Value,
    scale: Value,
    bias?: Value,
    { axis = -1, epsilon = 1e-5 }: { readonly axis?: number; readonly epsilon?: number } = {},
  ): Value {
    const inputs = bias ? [x, scale, bias] : [x, scale]
    return this.one('LayerNormalization', inputs, { axis: this.axis(x, axis), epsilon })
  }
  /** `x / sqrt(mean(x^2) + epsilon) * scale` over the last axis. */
  rmsNorm(x: Value, scale: Value, { epsilon = 1e-6 }: { readonly epsilon?: number } = {}): Value {
    return this.one('SimplifiedLayerNormalization', [x, scale], { axis: this.axis(x, -1), epsilon })
  }

  /**
   * Rotates pairs of each head by the angles of its position. x: [batch, heads, seq, head], or [batch, seq, hidden] with
   * `numHeads`. positions: int64 [batch, seq], or [1]: an offset. cos, sin: [positions, rotated sizes / 2].
   */
  rotaryEmbedding(
    x: Value,
    positions: Value,
    cos: Value,
    sin: Value,
    options: { readonly numHeads?: number; readonly interleaved?: boolean; readonly rotaryDim?: number } = {},
  ): Value {
    const { numHeads = 0, interleaved = false, rotaryDim = 0 } = options
    const params = { numHeads, interleaved, rotaryDim }
    return this.one('RotaryEmbedding', [x, this.cast(positions, 'int64'), cos, sin], params)
  }

  /** Causal attention with a key-value cache, heads grouped. For inference: it has no gradient. */
  groupQueryAttention(
    inputs: GroupQueryAttentionInputs,
    options: GroupQueryAttentionOptions,
  ): { readonly output: Value; readonly presentKey: Value; readonly presentValue: Value } {
    const { query, key, value, pastKey, pastValue, lengths, totalLength, cos, sin, positions, bias } = inputs
    const operands = [query, key, value, pastKey, pastValue, lengths, totalLength, cos, sin, positions, bias]
    const [output, presentKey, presentValue] = this.apply('GroupQueryAttention', operands, {
      numHeads: options.numHeads,
      kvNumHeads: options.kvNumHeads,
      scale: options.scale,
      doRotary: options.doRotary ?? cos !== undefined,
      rotaryInterleaved: options.rotaryInterleaved ?? false,
      localWindowSize: options.localWindowSize ?? -1,
      softcap: options.softcap ?? 0,
      presentLength: options.presentLength ?? pastKey?.shape[2] ?? query.shape[1] ?? 1,
    })
    return { output: output!, presentKey: presentKey!, presentValue: presentValue! }
  }

  /** x minus its maximum along an axis; the maximum counts as a constant to differentiation. */
  private shifted(x: Value, axis: number): { readonly shifted: Value; readonly maximum: Value } {
    const maximum = this.stopGradient(this.reduceMax(x, { axes: [axis], keepDims: true }))
    return { shifted: this.sub(x, maximum), maximum }
  }
  /** log(sum(exp(x))) along an axis. */
  logSumExp(
    x: Value,
    { axis = -1, keepDims = false }: { readonly axis?: number; readonly keepDims?: boolean } = {},
  ): Value {
    const { shifted, maximum } = this.shifted(x, axis)
    const sum = this.log(this.reduceSum(this.exp(shifted), { axes: [axis], keepDims: true }))
    const result = this.add(sum, maximum)
    return keepDims ? result : this.squeeze(result, [axis])
  }
  /** x - log(sum(exp(x))) along an axis. */
  logSoftmax(x: Value, { axis = -1 }: { readonly axis?: number } = {}): Value {
    const { shifted } = this.shifted(x, axis)
    return this.sub(shifted, this.log(this.reduceSum(this.exp(shifted), { axes: [axis], keepDims: true })))
  }
  /** Log-probabilities of targets. logits: [..., classes]; targets: int32 or int64 [...]; result: [...]. */
  targetLogprobs(logits: Value, targets: Value): Value {
    const { shifted } = this.shifted(logits, -1)
    const normaliser = this.log(this.reduceSum(this.exp(shifted), { axes: [-1], keepDims: true }))
    const chosen = this.gatherElements(shifted, this.unsqueeze(targets, [-1]))
    return this.squeeze(this.sub(chosen, normaliser), [-1])
  }
  /** Minus the mean (or the sum) of the targets' log-probabilities. */
  softmaxCrossEntropy(
    logits: Value,
    targets: Value,
    { reduction = 'mean' }: { readonly reduction?: 'mean' | 'sum' | 'none' } = {},
  ): Value {
    const losses = this.neg(this.targetLogprobs(logits, targets))
    if (reduction === 'none') return losses
    return reduction === 'mean' ? this.reduceMean(losses) : this.reduceSum(losses)
  }
}
