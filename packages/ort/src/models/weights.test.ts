import { describe, expect, it } from 'vitest'
import { WeightMismatchError } from './errors.js'
import { FIXTURES, loadFixture } from './testing/fixtures.js'
import { checkWeights, LM_HEAD, linearLayers, modelWeights, parameterCount, type StoredTensor } from './weights.js'

describe.each(FIXTURES)('%s', (name) => {
  it('lists exactly the tensors of the published checkpoint', async () => {
    const { config, folder, weights } = await loadFixture(name)
    const expected = Object.fromEntries(modelWeights(config).map((spec) => [spec.name, spec.shape]))
    expect(Object.fromEntries([...folder.tensors].map(([key, { shape }]) => [key, shape]))).toEqual(expected)
    expect(() => checkWeights(config, folder.tensors)).not.toThrow()
    expect(parameterCount(config)).toBe([...weights.values()].reduce((sum, { length }) => sum + length, 0))
    expect(linearLayers(config).length).toBe(7 * config.numLayers)
  })
})

describe('mismatches', () => {
  const check = async (name: string, change: (tensors: Map<string, StoredTensor>) => void) => {
    const { config, folder } = await loadFixture(name)
    const tensors = new Map<string, StoredTensor>(folder.tensors)
    change(tensors)
    return () => checkWeights(config, tensors)
  }
  const NORM = 'model.layers.1.input_layernorm.weight'

  it('a missing tensor', async () => {
    const act = await check('qwen2', (tensors) => tensors.delete(NORM))
    expect(act).toThrow(WeightMismatchError)
    expect(act).toThrow(/layers\.1\.input_layernorm\.weight: expected \[48\] in F32, F16 or BF16, got nothing/)
  })

  it('a tensor too many', async () => {
    const act = await check('qwen2', (tensors) => tensors.set('model.extra', { dtype: 'F32', shape: [1] }))
    expect(act).toThrow(/tensor model\.extra: expected no such tensor in a Qwen2ForCausalLM, got F32 \[1\]/)
  })

  it('a wrong shape and a wrong dtype', async () => {
    const shape = await check('qwen3', (tensors) => tensors.set(NORM, { dtype: 'F32', shape: [41] }))
    expect(shape).toThrow(/input_layernorm\.weight: expected \[40\].*got \[41\] in F32/)
    const dtype = await check('qwen3', (tensors) => tensors.set(NORM, { dtype: 'I32', shape: [40] }))
    expect(dtype).toThrow(/got \[40\] in I32/)
    const half = await check('qwen3', (tensors) => tensors.set(NORM, { dtype: 'BF16', shape: [40] }))
    expect(half).not.toThrow()
  })

  it('a stored copy of a tied head passes, a copy of another shape does not', async () => {
    const copy = await check('qwen2', (tensors) => tensors.set(LM_HEAD, { dtype: 'F32', shape: [131, 48] }))
    expect(copy).not.toThrow()
    const other = await check('qwen2', (tensors) => tensors.set(LM_HEAD, { dtype: 'F32', shape: [130, 48] }))
    expect(other).toThrow(/lm_head\.weight/)
  })

  it('buffers of old checkpoints pass', async () => {
    const name = 'model.layers.0.self_attn.rotary_emb.inv_freq'
    const act = await check('llama3', (tensors) => tensors.set(name, { dtype: 'F32', shape: [6] }))
    expect(act).not.toThrow()
  })
})
