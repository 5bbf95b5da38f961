import { z } from 'zod'
import { excerpt } from '../checkpoint/json.js'
import { ModelConfigError, UnsupportedModelError } from './errors.js'

/** What differs between the members of the Llama family, as their published model code has it. */
interface Family {
  readonly qkvBias: boolean | 'attention_bias'
  readonly outputBias: boolean | 'attention_bias'
  readonly mlpBias: boolean | 'mlp_bias'
  /** RMS norm over each head of q and k, before the rotation. */
  readonly qkNorm: boolean
  /** Head size where `head_dim` is absent. Default hidden_size / num_attention_heads. */
  readonly headDim?: number
  /** Which layers see only a window: all of them where `sliding_window` is set, or as `use_sliding_window` says. */
  readonly window: 'none' | 'all' | 'use_sliding_window'
}

const QWEN = { mlpBias: false, window: 'use_sliding_window' } as const

const FAMILIES = {
  LlamaForCausalLM: {
    qkvBias: 'attention_bias',
    outputBias: 'attention_bias',
    mlpBias: 'mlp_bias',
    qkNorm: false,
    window: 'none',
  },
  MistralForCausalLM: { qkvBias: false, outputBias: false, mlpBias: false, qkNorm: false, window: 'all' },
  Qwen2ForCausalLM: { ...QWEN, qkvBias: true, outputBias: false, qkNorm: false },
  Qwen3ForCausalLM: { ...QWEN, qkvBias: 'attention_bias', outputBias: 'attention_bias', qkNorm: true, headDim: 128 },
} as const satisfies Record<string, Family>

/** Class names, as in the `architectures` key of a Hugging Face config, that {@link readModelConfig} accepts. */
export type Architecture = keyof typeof FAMILIES

/** All of {@link Architecture}. Llama covers Llama 2, 3, 3.1, 3.2 and SmolLM2; Qwen2 covers Qwen2.5. */
export const SUPPORTED_ARCHITECTURES = Object.keys(FAMILIES) as readonly Architecture[]

const MODEL_TYPES: Readonly<Record<string, Architecture>> = {
  llama: 'LlamaForCausalLM',
  mistral: 'MistralForCausalLM',
  qwen2: 'Qwen2ForCausalLM',
  qwen3: 'Qwen3ForCausalLM',
}

/** How positions turn into angles. See `rope.ts` for the formulas. */
export type RopeConfig =
  | { readonly type: 'default'; readonly theta: number }
  | { readonly type: 'linear'; readonly theta: number; readonly factor: number }
  | {
      readonly type: 'llama3'
      readonly theta: number
      readonly factor: number
      readonly lowFreqFactor: number
      readonly highFreqFactor: number
      readonly originalMaxPositions: number
    }

/** A decoder of the Llama family. All sizes in elements. */
export interface ModelConfig {
  readonly architecture: Architecture
  readonly vocabSize: number
  readonly hiddenSize: number
  readonly intermediateSize: number
  readonly numLayers: number
  readonly numHeads: number
  /** Heads of keys and values; each serves numHeads / numKvHeads query heads. */
  readonly numKvHeads: number
  /** Size of one head. numHeads * headDim need not be hiddenSize. */
  readonly headDim: number
  readonly rmsNormEps: number
  /** Longest sequence, in tokens. */
  readonly maxPositions: number
  readonly rope: RopeConfig
  readonly qkvBias: boolean
  readonly outputBias: boolean
  readonly mlpBias: boolean
  readonly qkNorm: boolean
  /** The output head is the embedding matrix. */
  readonly tiedEmbeddings: boolean
  /** Per layer: how many positions a token sees, itself included, or null for all before it. */
  readonly windows: readonly (number | null)[]
  /** Ids that end a completion: those of the generation config, or else of the config. May be empty. */
  readonly eosTokenIds: readonly number[]
  readonly bosTokenId: number | null
  readonly padTokenId: number | null
}

const size = z.number().int().positive()
/** Far more than any model has, and few enough to list their weights: a config that lies about it is refused, not counted out. */
const MAX_LAYERS = 10_000
const tokenId = z.number().int().nonnegative()
const tokenIds = z.union([tokenId, z.array(tokenId)]).nullish()
const ropeParameters = z.looseObject({
  rope_type: z.string().optional(),
  type: z.string().optional(),
  rope_theta: z.number().positive().optional(),
  factor: z.number().positive().optional(),
  low_freq_factor: z.number().positive().optional(),
  high_freq_factor: z.number().positive().optional(),
  original_max_position_embeddings: size.optional(),
  partial_rotary_factor: z.number().optional(),
})

const configSchema = z.looseObject({
  architectures: z.array(z.string()).nullish(),
  model_type: z.string().optional(),
  vocab_size: size,
  hidden_size: size,
  intermediate_size: size,
  num_hidden_layers: size.max(MAX_LAYERS),
  num_attention_heads: size,
  num_key_value_heads: size.nullish(),
  head_dim: size.nullish(),
  hidden_act: z.string(),
  rms_norm_eps: z.number().positive().default(1e-6),
  max_position_embeddings: size,
  rope_theta: z.number().positive().optional(),
  rope_scaling: ropeParameters.nullish(),
  rope_parameters: ropeParameters.nullish(),
  rope_interleaved: z.boolean().optional(),
  partial_rotary_factor: z.number().optional(),
  attention_bias: z.boolean().default(false),
  mlp_bias: z.boolean().default(false),
  tie_word_embeddings: z.boolean().default(false),
  sliding_window: size.nullish(),
  use_sliding_window: z.boolean().default(false),
  max_window_layers: z.number().int().nonnegative().optional(),
  layer_types: z.array(z.string()).nullish(),
  quantization_config: z.unknown().optional(),
  bos_token_id: tokenId.nullish(),
  eos_token_id: tokenIds,
  pad_token_id: tokenId.nullish(),
})
type RawConfig = z.infer<typeof configSchema>

const generationSchema = z.looseObject({ eos_token_id: tokenIds })

/**
 * Reads a Hugging Face `config.json` (parsed), in the spelling of transformers 4 (`rope_theta`, `rope_scaling`) or 5
 * (`rope_parameters`).
 *
 * Keys that a checkpoint may leave out take the defaults of the published model classes: `num_key_value_heads` =
 * `num_attention_heads`, `head_dim` = hidden size / heads (128 for Qwen3), `rms_norm_eps` 1e-6, `rope_theta` 10000,
 * `tie_word_embeddings` and biases false.
 *
 * @param configJson the parsed `config.json`
 * @param generationConfigJson the parsed `generation_config.json`, whose `eos_token_id` (one id or several) goes first
 * @throws ModelConfigError on a missing or malformed key; UnsupportedModelError on an architecture, activation, rotary
 * type or quantisation that is not supported, listing what is.
 */
export function readModelConfig(configJson: unknown, generationConfigJson?: unknown): ModelConfig {
  const architecture = readArchitecture(configJson)
  const raw = parse(configSchema, configJson, 'config.json')
  const family: Family = FAMILIES[architecture]
  refuseUnsupported(raw, architecture)
  const numHeads = raw.num_attention_heads
  const numKvHeads = raw.num_key_value_heads ?? numHeads
  if (numHeads % numKvHeads !== 0) {
    throw invalid('num_key_value_heads', `a divisor of num_attention_heads (${numHeads})`, numKvHeads)
  }
  const headDim = raw.head_dim ?? family.headDim ?? raw.hidden_size / numHeads
  if (!Number.isInteger(headDim) || headDim % 2 !== 0) {
    throw invalid('head_dim', 'an even whole number (default: hidden_size / num_attention_heads)', headDim)
  }
  const flag = (value: boolean | 'attention_bias' | 'mlp_bias') => (typeof value === 'string' ? raw[value] : value)
  return {
    architecture,
    vocabSize: raw.vocab_size,
    hiddenSize: raw.hidden_size,
    intermediateSize: raw.intermediate_size,
    numLayers: raw.num_hidden_layers,
    numHeads,
    numKvHeads,
    headDim,
    rmsNormEps: raw.rms_norm_eps,
    maxPositions: raw.max_position_embeddings,
    rope: readRope(raw),
    qkvBias: flag(family.qkvBias),
    outputBias: flag(family.outputBias),
    mlpBias: flag(family.mlpBias),
    qkNorm: family.qkNorm,
    tiedEmbeddings: raw.tie_word_embeddings,
    windows: readWindows(raw, family),
    eosTokenIds: readEos(raw, generationConfigJson),
    bosTokenId: raw.bos_token_id ?? null,
    padTokenId: raw.pad_token_id ?? null,
  }
}

function readArchitecture(configJson: unknown): Architecture {
  const { architectures, model_type } = parse(
    configSchema.pick({ architectures: true, model_type: true }),
    configJson,
    'config.json',
  )
  const supported = SUPPORTED_ARCHITECTURES.join(', ')
  if (!architectures?.length && model_type === undefined) {
    throw new ModelConfigError(`config.json names no architecture: expected "architectures" or "model_type"`, {
      key: 'architectures',
    })
  }
  const named = architectures?.length ? architectures : [MODEL_TYPES[model_type!] ?? model_type!]
  const known = named.find((name): name is Architecture => Object.hasOwn(FAMILIES, name))
  if (known) return known
  throw new UnsupportedModelError(`architecture ${named.join(', ')} is not supported; supported are ${supported}`, {
    key: 'architectures',
    got: named,
    supported: SUPPORTED_ARCHITECTURES,
  })
}

function refuseUnsupported(raw: RawConfig, architecture: Architecture): void {
  const refuse = (key: string, got: unknown, supported: string) => {
    throw new UnsupportedModelError(
      `${architecture} with ${key} = ${JSON.stringify(got)} is not supported; supported: ${supported}`,
      { key, got, supported },
    )
  }
  if (raw.hidden_act !== 'silu') refuse('hidden_act', raw.hidden_act, '"silu"')
  if (raw.rope_interleaved) refuse('rope_interleaved', true, 'false')
  const partial = raw.rope_parameters?.partial_rotary_factor ?? raw.partial_rotary_factor ?? 1
  if (partial !== 1) refuse('partial_rotary_factor', partial, '1')
  if (raw.quantization_config != null) {
    refuse('quantization_config', raw.quantization_config, 'float32, float16 and bfloat16 weights without one')
  }
}

const ROPE_TYPES = ['default', 'linear', 'llama3'] as const

function readRope(raw: RawConfig): RopeConfig {
  const key = raw.rope_parameters ? 'rope_parameters' : 'rope_scaling'
  const given = raw.rope_parameters ?? raw.rope_scaling ?? {}
  const theta = given.rope_theta ?? raw.rope_theta ?? 10_000
  const type = given.rope_type ?? given.type ?? 'default'
  const need = (name: 'factor' | 'low_freq_factor' | 'high_freq_factor' | 'original_max_position_embeddings') => {
    const value = given[name]
    if (value === undefined) throw invalid(`${key}.${name}`, `a number, as rope type "${type}" needs it`, value)
    return value
  }
  if (type === 'default') return { type, theta }
  if (type === 'linear') return { type, theta, factor: need('factor') }
  if (type === 'llama3') {
    const rope = {
      type,
      theta,
      factor: need('factor'),
      lowFreqFactor: need('low_freq_factor'),
      highFreqFactor: need('high_freq_factor'),
      originalMaxPositions: need('original_max_position_embeddings'),
    } as const
    if (rope.highFreqFactor <= rope.lowFreqFactor) {
      throw invalid(`${key}.high_freq_factor`, `more than low_freq_factor (${rope.lowFreqFactor})`, rope.highFreqFactor)
    }
    return rope
  }
  throw new UnsupportedModelError(`rope type "${type}" is not supported; supported are ${ROPE_TYPES.join(', ')}`, {
    key,
    got: type,
    supported: ROPE_TYPES,
  })
}

/** `layer_types` decides where it is given; else Qwen windows the layers from `max_window_layers` on, Mistral all. */
function readWindows(raw: RawConfig, family: Family): (number | null)[] {
  const layers = Array.from({ length: raw.num_hidden_layers }, (_, layer) => layer)
  const window = family.window === 'use_sliding_window' && !raw.use_sliding_window ? null : (raw.sliding_window ?? null)
  if (family.window === 'none' || window === null) return layers.map(() => null)
  if (raw.layer_types) {
    if (raw.layer_types.length !== layers.length) {
      throw invalid('layer_types', `${layers.length} entries, one per layer`, raw.layer_types.length)
    }
    return raw.layer_types.map((type) => {
      if (type === 'full_attention') return null
      if (type === 'sliding_attention') return window
      throw new UnsupportedModelError(
        `layer type "${type}" is not supported; supported are full_attention, sliding_attention`,
        { key: 'layer_types', got: type },
      )
    })
  }
  const first = family.window === 'use_sliding_window' ? (raw.max_window_layers ?? 28) : 0
  return layers.map((layer) => (layer >= first ? window : null))
}

function readEos(raw: RawConfig, generationConfigJson: unknown): number[] {
  const generation =
    generationConfigJson === undefined ? {} : parse(generationSchema, generationConfigJson, 'generation_config.json')
  const fromGeneration = generation.eos_token_id != null
  const eos = generation.eos_token_id ?? raw.eos_token_id ?? []
  const ids = typeof eos === 'number' ? [eos] : eos
  const outside = ids.find((id) => id >= raw.vocab_size)
  if (outside === undefined) return ids
  const file = fromGeneration ? 'generation_config.json' : 'config.json'
  throw invalid('eos_token_id', `ids below vocab_size (${raw.vocab_size})`, outside, file)
}

function parse<T>(schema: z.ZodType<T>, json: unknown, file: string): T {
  const result = schema.safeParse(json)
  if (result.success) return result.data
  const issue = result.error.issues[0]
  const key = issue?.path.join('.') ?? ''
  const got = issue?.path.reduce<unknown>((inner, part) => (inner as Record<PropertyKey, unknown>)?.[part], json)
  const shown = excerpt(JSON.stringify(got) ?? 'nothing')
  throw new ModelConfigError(`${file}: ${key || 'the file'}: ${issue?.message ?? 'not readable'}, got ${shown}`, {
    file,
    key,
    got,
  })
}

function invalid(key: string, expected: string, got: unknown, file = 'config.json'): ModelConfigError {
  return new ModelConfigError(`${file}: ${key}: expected ${expected}, got ${String(got)}`, { key, expected, got })
}
