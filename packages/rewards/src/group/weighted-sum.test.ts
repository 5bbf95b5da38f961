import { describe, expect, it } from 'vitest'
import { verifyText } from '../verify/text.js'
import { judgeEach } from './judge-each.js'
import { summariseRewards } from './summarise.js'
import { weightedSum } from './weighted-sum.js'

const options = { signal: new AbortController().signal }

describe('weightedSum', () => {
  const reward = weightedSum({
    correct: { weight: 1, score: (answer: string) => verifyText(answer, 'Paris') },
    length: { weight: -0.1, score: async (answer: string) => answer.length },
  })

  it('adds parts up and reports each without its weight', async () => {
    expect(await reward('Paris', options)).toEqual({ reward: 0.5, metrics: { correct: 1, length: 5 } })
    expect(await reward('Rome', options)).toEqual({ reward: -0.4, metrics: { correct: 0, length: 4 } })
  })

  it('puts the parts into the metrics of a group', async () => {
    const results = await judgeEach<string>((answer, { signal }) => reward(answer, { signal }))(['Paris', 'Rome'], [])
    expect(results.map(({ metrics }) => metrics)).toEqual([
      { correct: 1, length: 5, reward_failed: 0 },
      { correct: 0, length: 4, reward_failed: 0 },
    ])
  })

  it('check 21: two parts that cancel have spread, their total has none', async () => {
    const cancelling = weightedSum({
      up: { weight: 1, score: (value: number) => value },
      down: { weight: -1, score: (value: number) => value },
    })
    const results = await judgeEach<number>((value, { signal }) => cancelling(value, { signal }))([1, 2, 3], [])
    expect(summariseRewards(results)).toMatchObject({ mean: 0, std: 0, metrics: { up: 2, down: 2 } })
  })

  it('names the part that is no number, and leaves that sample out', async () => {
    const broken = weightedSum({ ratio: { weight: 1, score: (value: number) => value / value } })
    await expect(broken(0, options)).rejects.toThrow('reward part "ratio": expected a finite number, got NaN')
    const results = await judgeEach<number>((value, { signal }) => broken(value, { signal }))([0, 1], [])
    expect(results.map((result) => result.reward)).toEqual([null, 1])
  })

  it('refuses no parts, weights that are no numbers, and scores that are not called', () => {
    expect(() => weightedSum({})).toThrow(/at least one/)
    expect(() => weightedSum({ x: { weight: Number.NaN, score: () => 1 } })).toThrow(/weightedSum.x.weight/)
    expect(() => weightedSum({ x: { weight: 1, score: 1 as never } })).toThrow(/weightedSum.x.score/)
  })
})

describe('summariseRewards', () => {
  it('has no mean of nobody', () => {
    expect(summariseRewards([])).toEqual({ count: 0, leftOut: 0, mean: null, std: null, metrics: {}, reasons: {} })
  })
})
