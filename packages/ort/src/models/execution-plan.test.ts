import { describe, expect, it } from 'vitest'
import { readModelConfig } from './config.js'
import { runArena, trainingArena, trainingOptimisation, trainingThreads } from './execution-plan.js'
import { parameterCount } from './weights.js'

/** A decoder whose embedding holds nearly all of its parameters. */
const decoderOf = (millions: number) =>
  readModelConfig({
    architectures: ['LlamaForCausalLM'],
    vocab_size: (millions * 1e6) / 64,
    hidden_size: 64,
    intermediate_size: 64,
    num_hidden_layers: 1,
    num_attention_heads: 2,
    hidden_act: 'silu',
    max_position_embeddings: 64,
    tie_word_embeddings: true,
  })
const [small, medium, large] = [decoderOf(1), decoderOf(12), decoderOf(20)]
const plan = (config: typeof small, threads: number, agents = 1) =>
  trainingThreads(config, { threads, agents, overlap: true })

it.each([
  { millions: 1, run: 'shared', training: 'shared', optimisation: 'none' },
  { millions: 12, run: true, training: true, optimisation: 'all' },
  { millions: 70, run: true, training: 'shrink', optimisation: 'all' },
])('sessions of $millions M parameters have run memory and a graph of their size', ({ millions, ...want }) => {
  const config = decoderOf(millions)
  const got = { run: runArena(config), training: trainingArena(config), optimisation: trainingOptimisation(config) }
  expect(got).toEqual(want)
})

describe('the threads of training passes', () => {
  it.each([
    [1, 1, 1],
    [2, 2, 1],
    [3, 3, 1],
    [4, 4, 1],
    [5, 4, 1],
    [6, 3, 2],
    [7, 3, 2],
    [8, 4, 2],
    [10, 2, 5],
    [11, 2, 5],
    [16, 4, 4],
  ])('%d threads are %d lanes of %d', (threads, lanes, laneThreads) => {
    expect(parameterCount(medium)).toBeGreaterThan(12e6)
    expect(plan(medium, threads)).toEqual({ concurrent: false, threads, lanes, laneThreads })
    expect(plan(small, threads)).toEqual({ concurrent: true, threads, lanes, laneThreads })
  })

  it('leave one idle at most', () => {
    for (let threads = 1; threads <= 256; threads++) {
      const { lanes, laneThreads } = plan(medium, threads)
      expect(lanes).toBeLessThanOrEqual(4)
      expect(threads - lanes * laneThreads).toBeOneOf([0, 1])
    }
  })

  it.each([
    [1, 2, 1, 1],
    [2, 2, 1, 1],
    [2, 3, 1, 1],
    [4, 2, 2, 2],
    [8, 3, 2, 2],
    [12, 2, 6, 3],
  ])('are divided between small agents: %d between %d', (threads, agents, share, lanes) => {
    const laneThreads = Math.floor(share / lanes)
    expect(plan(small, threads, agents)).toEqual({ concurrent: true, threads: share, lanes, laneThreads })
  })

  it('go all to one pass at a time of large models, and where runs cannot overlap', () => {
    expect(plan(large, 8, 3)).toEqual({ concurrent: false, threads: 8, lanes: 1, laneThreads: 8 })
    expect(trainingThreads(medium, { threads: 8, agents: 1, overlap: false }).lanes).toBe(1)
  })
})
