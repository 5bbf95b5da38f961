import { describe, expect, it } from 'vitest'
import { headRanges } from './logprob-model.js'
import { headChunkCount } from './memory-plan.js'
import { readModelConfig } from '../models/config.js'

const config = (vocabSize: number) =>
  readModelConfig({
    architectures: ['LlamaForCausalLM'],
    vocab_size: vocabSize,
    hidden_size: 8,
    intermediate_size: 16,
    num_hidden_layers: 1,
    num_attention_heads: 2,
    hidden_act: 'silu',
    max_position_embeddings: 64,
  })

describe('headChunkCount', () => {
  it.each([1, 2, 3, 131, 283, 4096])('leaves no piece of %d ids empty, however little memory there is', (vocabSize) => {
    const count = headChunkCount(config(vocabSize), 500, 1)
    expect(Number.isInteger(Math.log2(count))).toBe(true)
    for (const { start, end } of headRanges(vocabSize, count)) expect(end).toBeGreaterThan(start)
  })

  it('cuts only as much as the memory asks for', () => {
    expect(headChunkCount(config(4096), 100, 2 ** 30)).toBe(1)
    // 100 positions of 4096 float32 take 1,638,400 bytes; a quarter of a quarter of 8 MiB is 524,288.
    expect(headChunkCount(config(4096), 100, 8 * 2 ** 20)).toBe(4)
  })
})
