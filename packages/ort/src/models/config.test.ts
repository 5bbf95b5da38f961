import { readFile } from 'node:fs/promises'
import { describe, expect, it } from 'vitest'
import { readModelConfig } from './config.js'
import { ModelConfigError, UnsupportedModelError } from './errors.js'

const read = async (path: string) =>
  JSON.parse(await readFile(new URL(`../../../../fixtures/models/${path}`, import.meta.url), 'utf8')) as Record<
    string,
    unknown
  >

/** A config of the smallest shape, with changes; undefined takes a key out. */
const config = (changes: Record<string, unknown> = {}) =>
  Object.fromEntries(
    Object.entries({
      architectures: ['LlamaForCausalLM'],
      vocab_size: 100,
      hidden_size: 64,
      intermediate_size: 128,
      num_hidden_layers: 3,
      num_attention_heads: 4,
      hidden_act: 'silu',
      max_position_embeddings: 128,
      ...changes,
    }).filter(([, value]) => value !== undefined),
  )

describe('spellings', () => {
  it('reads the keys of transformers 4 and 5 to the same model', async () => {
    const [now, before] = [await read('llama3/config.json'), await read('llama3/config.old-spelling.json')]
    expect(readModelConfig(before)).toEqual(readModelConfig(now))
    expect(readModelConfig(now).rope).toEqual({
      type: 'llama3',
      theta: 500_000,
      factor: 8,
      lowFreqFactor: 1,
      highFreqFactor: 4,
      originalMaxPositions: 64,
    })
  })

  it('knows the oldest key of a rope type, and takes null for none', () => {
    const old = config({ rope_theta: 5e5, rope_scaling: { type: 'linear', factor: 2 } })
    expect(readModelConfig(old).rope).toEqual({ type: 'linear', theta: 5e5, factor: 2 })
    expect(readModelConfig(config({ rope_scaling: null })).rope).toEqual({ type: 'default', theta: 10_000 })
  })

  it('finds the architecture by model_type where the class is not named', () => {
    expect(readModelConfig(config({ architectures: null, model_type: 'qwen2' })).architecture).toBe('Qwen2ForCausalLM')
  })
})

describe('families', () => {
  it.each([
    ['qwen2', { qkvBias: true, outputBias: false, qkNorm: false, tiedEmbeddings: true, headDim: 8 }],
    ['qwen3', { qkvBias: false, outputBias: false, qkNorm: true, tiedEmbeddings: false, headDim: 16 }],
    ['llama3', { qkvBias: false, outputBias: false, qkNorm: false, tiedEmbeddings: true, headDim: 12 }],
    ['mistral', { qkvBias: false, outputBias: false, qkNorm: false, tiedEmbeddings: false, headDim: 8 }],
  ])('%s', async (name, expected) => {
    const model = readModelConfig(await read(`${name}/config.json`), await read(`${name}/generation_config.json`))
    expect(model).toMatchObject({ ...expected, eosTokenIds: [2], windows: [null, null], mlpBias: false })
  })

  it('takes the defaults of the published classes', () => {
    expect(readModelConfig(config())).toMatchObject({ numKvHeads: 4, headDim: 16, rmsNormEps: 1e-6, eosTokenIds: [] })
    expect(readModelConfig(config({ architectures: ['Qwen3ForCausalLM'] })).headDim).toBe(128)
    expect(readModelConfig(config({ attention_bias: true, mlp_bias: true }))).toMatchObject({
      qkvBias: true,
      outputBias: true,
      mlpBias: true,
    })
  })

  it('windows the layers that the family windows', () => {
    const windows = (changes: Record<string, unknown>) => readModelConfig(config(changes)).windows
    expect(windows({ architectures: ['MistralForCausalLM'], sliding_window: 7 })).toEqual([7, 7, 7])
    expect(windows({ sliding_window: 7 })).toEqual([null, null, null])
    const qwen = { architectures: ['Qwen2ForCausalLM'], sliding_window: 7, max_window_layers: 1 }
    expect(windows(qwen)).toEqual([null, null, null])
    expect(windows({ ...qwen, use_sliding_window: true })).toEqual([null, 7, 7])
    const types = ['sliding_attention', 'full_attention', 'sliding_attention']
    expect(windows({ ...qwen, use_sliding_window: true, layer_types: types })).toEqual([7, null, 7])
  })

  it('prefers the end ids of the generation config, one or several', () => {
    const ends = (generation: unknown) => readModelConfig(config({ eos_token_id: 5 }), generation).eosTokenIds
    expect(ends(undefined)).toEqual([5])
    expect(ends({})).toEqual([5])
    expect(ends({ eos_token_id: [7, 8] })).toEqual([7, 8])
  })
})

describe('refusals', () => {
  const refusal = (changes: Record<string, unknown>) => {
    try {
      readModelConfig(config(changes))
    } catch (error) {
      return error as Error
    }
    throw new Error('it was accepted')
  }

  it.each([
    [{ architectures: ['GPT2LMHeadModel'] }, /GPT2LMHeadModel.*LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM/],
    [{ architectures: undefined, model_type: 'gemma3' }, /gemma3.*supported are/],
    [{ hidden_act: 'gelu' }, /hidden_act = "gelu".*"silu"/],
    [{ rope_scaling: { rope_type: 'yarn', factor: 4 } }, /"yarn".*default, linear, llama3/],
    [{ partial_rotary_factor: 0.5 }, /partial_rotary_factor = 0.5/],
    [{ rope_interleaved: true }, /rope_interleaved/],
    [{ quantization_config: { bits: 4 } }, /quantization_config.*float32, float16 and bfloat16/],
  ])('names what is not supported and lists what is: %j', (changes, message) => {
    const error = refusal(changes)
    expect(error).toBeInstanceOf(UnsupportedModelError)
    expect(error.message).toMatch(message)
  })

  it.each([
    [{ hidden_size: undefined }, /hidden_size/],
    [{ vocab_size: 1.5 }, /vocab_size/],
    [{ num_key_value_heads: 3 }, /num_key_value_heads: expected a divisor of num_attention_heads \(4\), got 3/],
    [{ head_dim: 15 }, /head_dim: expected an even whole number/],
    [{ architectures: undefined }, /names no architecture/],
    [{ rope_scaling: { rope_type: 'llama3', factor: 8 } }, /rope_scaling.low_freq_factor: expected a number/],
    [{ architectures: ['MistralForCausalLM'], sliding_window: 0 }, /sliding_window/],
    [{ num_hidden_layers: 5e9 }, /num_hidden_layers: .*<=10000, got "5000000000"/],
    [{ num_hidden_layers: 1e7 }, /num_hidden_layers/],
    [{ eos_token_id: [1, 100] }, /config.json: eos_token_id: expected ids below vocab_size \(100\), got 100/],
  ])('names the key that is missing or wrong: %j', (changes, message) => {
    const error = refusal(changes)
    expect(error).toBeInstanceOf(ModelConfigError)
    expect(error.message).toMatch(message)
  })

  it('keeps control characters out of its messages', () => {
    const evil = '\u001b[2Jevil'
    for (const changes of [{ architectures: [evil] }, { rope_scaling: { rope_type: evil } }, { hidden_act: evil }]) {
      expect(refusal(changes).message).toMatch(/u(\{1b\}|001b)/)
      // oxlint-disable-next-line no-control-regex -- that is what is looked for
      expect(refusal(changes).message).not.toMatch(/[\u0000-\u001f]/)
    }
  })

  it('names the generation config whose end id no token has', () => {
    const read = () => readModelConfig(config(), { eos_token_id: 123_456 })
    expect(read).toThrow(/generation_config.json: eos_token_id: expected ids below vocab_size \(100\), got 123456/)
  })

  it('refuses what is no object', () => {
    expect(() => readModelConfig('text')).toThrow(ModelConfigError)
    expect(() => readModelConfig(config(), { eos_token_id: 'x' })).toThrow(/generation_config.json: eos_token_id/)
  })
})
