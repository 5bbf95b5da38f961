import type { Graph, Value } from '../graph/index.js'
import { CachedAttention, cacheHeadDim, type CacheInputs, type LayerCache } from './cached-attention.js'
import type { ModelConfig } from './config.js'
import { type DecoderWeights, Layers } from './layers.js'
import { EMBEDDING, FINAL_NORM, headWeightName, layerPrefix } from './weights.js'

/** Names of a layer's cache as graph inputs and outputs. */
export function cacheNames(layer: number) {
  return {
    pastKey: `past_key_${layer}`,
    pastValue: `past_value_${layer}`,
    presentKey: `present_key_${layer}`,
    presentValue: `present_value_${layer}`,
  }
}

/** One token for every row. */
export interface DecodeStep {
  /** int32 [rows]. Of the first step: input `tokens`. */
  readonly tokens: Value
  /** int32 [rows]: how many tokens of the row the cache holds, which is where the new one goes. Of the first: input `positions`. */
  readonly positions: Value
  /** int32 scalar: the largest position + 1. Of the first step: input `total_length`. */
  readonly totalLength: Value
  /** Inputs `rope_cos` and `rope_sin`, float32 [positions, headDim / 2], at least as long as the cache. */
  readonly cos: Value
  readonly sin: Value
  /** float32 [rows, vocabulary]. */
  readonly logits: Value
  /** Inputs `past_key_<layer>`, `past_value_<layer>`, float32 [rows, kv heads, length, {@link cacheHeadDim}]. */
  readonly past: readonly LayerCache[]
  /**
   * What the caches become, to be bound to the very tensors that are fed as `past`: they are written in place, at the
   * row's position.
   */
  readonly present: readonly LayerCache[]
  /** The step after it in the same graph, on the tokens [rows] that were drawn. Its caches are this one's, written on in place. */
  next(tokens: Value): DecodeStep
}

/** A graph that reads whole prompts. */
export interface Prefill {
  /** Input `tokens`, int32 [batch, seq], padded on the right. */
  readonly tokens: Value
  /** Input `last`, int32 [batch]: length of each prompt - 1. */
  readonly last: Value
  /** Input `total_length`, int32 scalar: seq. */
  readonly totalLength: Value
  readonly cos: Value
  readonly sin: Value
  /** After the last token of each prompt, float32 [batch, vocabulary]. Costs nothing where it is not an output. */
  readonly logits: Value
  /** float32 [batch, kv heads, seq, {@link cacheHeadDim}]; what lies behind a prompt's end is meaningless. */
  readonly present: readonly LayerCache[]
}

/** Caches as graph outputs, under {@link cacheNames} and what is to follow them. */
export function cacheOutputs(present: readonly LayerCache[], suffix = ''): Record<string, Value> {
  return Object.fromEntries(
    present.flatMap(({ key, value }, layer) => [
      [cacheNames(layer).presentKey + suffix, key],
      [cacheNames(layer).presentValue + suffix, value],
    ]),
  )
}

/**
 * One token for each of any number of rows, in place on a KV cache. Rows may stand at different positions; what a free
 * row computes is to be ignored. The caller appends its sampling to `logits` and asks the graph for outputs.
 *
 * Uses com.microsoft::GroupQueryAttention, which has float32 kernels on CPU and WebGPU.
 */
export function decodeStep(g: Graph, config: ModelConfig, weights: DecoderWeights): DecodeStep {
  const tokens = g.input('tokens', 'int32', ['rows'])
  const positions = g.input('positions', 'int32', ['rows'])
  const shared = sharedInputs(g, config)
  const shape = ['rows', config.numKvHeads, 'length', cacheHeadDim(config)]
  const past = Array.from({ length: config.numLayers }, (_, layer) => ({
    key: g.input(cacheNames(layer).pastKey, 'float32', shape),
    value: g.input(cacheNames(layer).pastValue, 'float32', shape),
  }))
  return advance(new Layers(g, config, weights), { tokens, positions, ...shared, past })
}

type StepInputs = Omit<DecodeStep, 'logits' | 'present' | 'next'>

function advance(layers: Layers, inputs: StepInputs): DecodeStep {
  const { g } = layers
  const { tokens, positions, totalLength, cos, sin, past } = inputs
  const place = { batch: 'rows', seq: 1, lengths: positions, positions: g.cast(g.unsqueeze(positions, [1]), 'int64') }
  const { hidden, present } = run(layers, tokens, { totalLength, cos, sin, ...place }, past)
  const moved = () => ({ positions: g.add(positions, 1), totalLength: g.add(totalLength, 1) })
  return {
    ...inputs,
    logits: logits(layers, hidden),
    present,
    next: (drawn) => advance(layers, { ...inputs, ...moved(), tokens: drawn, past: present }),
  }
}

/** Keys, values and last logits of a batch of prompts, from nothing. */
export function prefill(g: Graph, config: ModelConfig, weights: DecoderWeights): Prefill {
  const tokens = g.input('tokens', 'int32', ['batch', 'seq'])
  const last = g.input('last', 'int32', ['batch'])
  const shared = sharedInputs(g, config)
  const layers = new Layers(g, config, weights)
  const place = { batch: 'batch', seq: 'seq', lengths: last, positions: g.constant([0], 'int64') }
  const { hidden, present } = run(layers, g.reshape(tokens, [-1]), { ...shared, ...place })
  const sequences = g.reshape(hidden, ['batch', 'seq', config.hiddenSize])
  const ends = g.gatherND(sequences, g.unsqueeze(last, [-1]), { batchDims: 1 })
  return { tokens, last, ...shared, logits: logits(layers, ends), present }
}

function sharedInputs(g: Graph, config: ModelConfig) {
  const half = config.headDim / 2
  return {
    totalLength: g.input('total_length', 'int32', []),
    cos: g.input('rope_cos', 'float32', ['positions', half]),
    sin: g.input('rope_sin', 'float32', ['positions', half]),
  }
}

/** tokens: int32 [batch * seq] -> the residual stream, [batch * seq, hidden], and the caches. */
function run(layers: Layers, tokens: Value, inputs: CacheInputs, past?: readonly LayerCache[]) {
  const { g, config } = layers
  const attention = new CachedAttention(g, config, inputs)
  const present: LayerCache[] = []
  let x = g.gather(layers.weight(EMBEDDING, [config.vocabSize, config.hiddenSize]), tokens)
  for (let layer = 0; layer < config.numLayers; layer++) {
    const normed = layers.norm(x, `${layerPrefix(layer)}.input_layernorm.weight`)
    const window = config.windows[layer] ?? null
    const result = attention.attend(layers.projections(normed, layer), window, past?.[layer])
    present.push(result.present)
    x = layers.afterAttention(x, result.attended, layer)
  }
  return { hidden: x, present }
}

function logits(layers: Layers, hidden: Value): Value {
  const { config } = layers
  const head = layers.weight(headWeightName(config), [config.vocabSize, config.hiddenSize])
  return layers.g.gemm(layers.norm(hidden, FINAL_NORM), head, undefined, { transB: true })
}
