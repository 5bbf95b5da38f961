import { describe, expect, it } from 'vitest'
import { decodeFloor, trainingFlops } from './flops.js'
import { magrpoFloor, timeMagrpo } from './magrpo.js'
import { HIDDEN_64, modelConfig, modelFolder } from './models.js'

const feedback = ({ numAgents }: { readonly numAgents: number }) =>
  Array.from({ length: numAgents }, () => 'Once more:')

describe('a timed run', () => {
  it('samples the whole tree: a root, and a node behind each of its answers', async () => {
    const folder = await modelFolder(HIDDEN_64)
    const run = { folder, agents: 2, prompts: ['Describe a city in the clouds:'], generations: 2, newTokens: 3 }
    const flat = await timeMagrpo(run, { threads: 1 })
    expect(flat.tokens).toBe(2 * 2 * 3)
    const deep = await timeMagrpo({ ...run, transition: feedback }, { threads: 1 })
    expect(deep.tokens).toBe(2 * (1 + 2) * 2 * 3)
    for (const { seconds, training } of [flat, deep]) {
      expect(training).toBeGreaterThan(0)
      expect(training).toBeLessThan(seconds)
    }
  })
})

describe('the floor of a run', () => {
  it('counts each prompt, and the rows of the second turn on top of those of the first', () => {
    const config = modelConfig(HIDDEN_64)
    const floors = { gemm: 1e9, bandwidth: 1e9 }
    const of = (rows: number) => 8 * decodeFloor(config, rows, 4, floors) + trainingFlops(config, rows, 8) / floors.gemm
    const run = { prompts: ['a', 'b'], generations: 3, newTokens: 8 }
    expect(magrpoFloor(config, run, floors)).toBeCloseTo(2 * of(3), 12)
    expect(magrpoFloor(config, { ...run, transition: feedback }, floors)).toBeCloseTo(2 * (of(3) + of(9)), 12)
  })
})
