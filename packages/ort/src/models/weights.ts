import type { ModelConfig } from './config.js'
import { WeightMismatchError } from './errors.js'

/** One weight of a model: its Hugging Face name and its shape (matrices of linear layers are [out, in]). */
export interface WeightSpec {
  readonly name: string
  readonly shape: readonly number[]
}

/** A linear layer inside a decoder block: y = x W^T + b. What LoRA can be attached to. */
export interface LinearSpec {
  /** Name without `.weight`, such as `model.layers.0.self_attn.q_proj`. */
  readonly name: string
  readonly inFeatures: number
  readonly outFeatures: number
  readonly bias: boolean
}

/** Names of the linear layers of a block, as PEFT's `target_modules` spells them. */
export const LINEAR_NAMES = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'] as const
/** One of {@link LINEAR_NAMES}. */
export type LinearName = (typeof LINEAR_NAMES)[number]

export const EMBEDDING = 'model.embed_tokens.weight'
export const FINAL_NORM = 'model.norm.weight'
export const LM_HEAD = 'lm_head.weight'

/** Name of the matrix of the output head: the embedding where they are tied. */
export function headWeightName(config: Pick<ModelConfig, 'tiedEmbeddings'>): string {
  return config.tiedEmbeddings ? EMBEDDING : LM_HEAD
}

/** Prefix of all weights of block `layer`. */
export function layerPrefix(layer: number): string {
  return `model.layers.${layer}`
}

/** The linear layers of one block. */
export function layerLinears(config: ModelConfig, layer: number): Record<LinearName, LinearSpec> {
  const { hiddenSize, intermediateSize, headDim, qkvBias, outputBias, mlpBias } = config
  const [queries, keys] = [config.numHeads * headDim, config.numKvHeads * headDim]
  const linear = (path: string, inFeatures: number, outFeatures: number, bias: boolean): LinearSpec => ({
    name: `${layerPrefix(layer)}.${path}`,
    inFeatures,
    outFeatures,
    bias,
  })
  return {
    q_proj: linear('self_attn.q_proj', hiddenSize, queries, qkvBias),
    k_proj: linear('self_attn.k_proj', hiddenSize, keys, qkvBias),
    v_proj: linear('self_attn.v_proj', hiddenSize, keys, qkvBias),
    o_proj: linear('self_attn.o_proj', queries, hiddenSize, outputBias),
    gate_proj: linear('mlp.gate_proj', hiddenSize, intermediateSize, mlpBias),
    up_proj: linear('mlp.up_proj', hiddenSize, intermediateSize, mlpBias),
    down_proj: linear('mlp.down_proj', intermediateSize, hiddenSize, mlpBias),
  }
}

/** All linear layers of all blocks, in the order of the model. */
export function linearLayers(config: ModelConfig): LinearSpec[] {
  return Array.from({ length: config.numLayers }, (_, layer) => Object.values(layerLinears(config, layer))).flat()
}

/** Every weight of a model, in the order of the model. A tied head is listed once, as the embedding. */
export function modelWeights(config: ModelConfig): WeightSpec[] {
  const { vocabSize, hiddenSize, headDim } = config
  const specs: WeightSpec[] = [{ name: EMBEDDING, shape: [vocabSize, hiddenSize] }]
  for (let layer = 0; layer < config.numLayers; layer++) {
    const prefix = layerPrefix(layer)
    specs.push({ name: `${prefix}.input_layernorm.weight`, shape: [hiddenSize] })
    specs.push({ name: `${prefix}.post_attention_layernorm.weight`, shape: [hiddenSize] })
    if (config.qkNorm) {
      specs.push({ name: `${prefix}.self_attn.q_norm.weight`, shape: [headDim] })
      specs.push({ name: `${prefix}.self_attn.k_norm.weight`, shape: [headDim] })
    }
    for (const { name, inFeatures, outFeatures, bias } of Object.values(layerLinears(config, layer))) {
      specs.push({ name: `${name}.weight`, shape: [outFeatures, inFeatures] })
      if (bias) specs.push({ name: `${name}.bias`, shape: [outFeatures] })
    }
  }
  specs.push({ name: FINAL_NORM, shape: [hiddenSize] })
  if (!config.tiedEmbeddings) specs.push({ name: LM_HEAD, shape: [vocabSize, hiddenSize] })
  return specs
}

/** Number of parameters, a tied head counted once. */
export function parameterCount(config: ModelConfig): number {
  return modelWeights(config).reduce((sum, { shape }) => sum + shape.reduce((a, b) => a * b, 1), 0)
}

/** What {@link checkWeights} looks at in a stored tensor; `dtype` as safetensors spells it. */
export interface StoredTensor {
  readonly dtype: string
  readonly shape: readonly number[]
}

const WEIGHT_DTYPES = ['F32', 'F16', 'BF16']

/**
 * Checks that stored tensors are exactly the weights of the model. A stored copy of a tied head and the `inv_freq`
 * buffers of old Llama checkpoints are the only extras allowed.
 *
 * @throws WeightMismatchError naming the tensor, what was expected and what came.
 */
export function checkWeights(config: ModelConfig, tensors: ReadonlyMap<string, StoredTensor>): void {
  const specs = modelWeights(config)
  for (const spec of specs) checkWeight(spec, tensors.get(spec.name))
  const known = new Set(specs.map(({ name }) => name))
  if (config.tiedEmbeddings) {
    const copy = tensors.get(LM_HEAD)
    if (copy) checkWeight({ name: LM_HEAD, shape: [config.vocabSize, config.hiddenSize] }, copy)
    known.add(LM_HEAD)
  }
  for (const [name, { dtype, shape }] of tensors) {
    if (known.has(name) || name.endsWith('.rotary_emb.inv_freq')) continue
    throw new WeightMismatchError(
      `tensor ${name}: expected no such tensor in a ${config.architecture}, got ${dtype} [${shape.join(', ')}]; ` +
        `check that config.json belongs to these weights`,
      { tensor: name, expected: null, got: { dtype, shape } },
    )
  }
}

function checkWeight(spec: WeightSpec, got: StoredTensor | undefined): void {
  const expected = `[${spec.shape.join(', ')}] in F32, F16 or BF16`
  if (!got) {
    throw new WeightMismatchError(`tensor ${spec.name}: expected ${expected}, got nothing: it is missing`, {
      tensor: spec.name,
      expected: spec.shape,
      got: null,
    })
  }
  const sameShape = got.shape.length === spec.shape.length && got.shape.every((size, i) => size === spec.shape[i])
  if (sameShape && WEIGHT_DTYPES.includes(got.dtype)) return
  throw new WeightMismatchError(
    `tensor ${spec.name}: expected ${expected}, got [${got.shape.join(', ')}] in ${got.dtype}`,
    { tensor: spec.name, expected: spec.shape, got: { dtype: got.dtype, shape: got.shape } },
  )
}
