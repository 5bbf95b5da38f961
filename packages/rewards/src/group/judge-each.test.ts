import { describe, expect, it } from 'vitest'
import { RewardFailuresError, RewardValueError } from '../errors.js'
import { FailureBudget } from '../failure-budget.js'
import { judgeEach, judgeGroup, type Judgement } from './judge-each.js'
import { summariseRewards } from './summarise.js'

const numbers = (count: number) => Array.from({ length: count }, (_, k) => k)

describe('judgeEach', () => {
  it('gives each member its call, its slot and its environment', async () => {
    const rewards = judgeEach<number, string>((value, { env, slot }) => ({
      reward: value * 10 + slot,
      metrics: { length: env.length },
    }))
    expect(await rewards([5, 6], ['x', 'yy'])).toEqual([
      { reward: 50, metrics: { length: 1, reward_failed: 0 } },
      { reward: 61, metrics: { length: 2, reward_failed: 0 } },
    ])
  })

  it('check 22: null leaves a sample out, and the others are centred without it', async () => {
    const results = await judgeEach<number>((value) => (value === 3 ? null : value))(numbers(8), [])
    const { mean, count, leftOut, reasons } = summariseRewards(results)
    expect({ count, leftOut, reasons }).toEqual({
      count: 7,
      leftOut: 1,
      reasons: { 'the reward function returned null': 1 },
    })
    const centred = results.flatMap(({ reward }) => (reward === null ? [] : [reward - mean!]))
    expect(centred).toHaveLength(7)
    expect(centred.reduce((sum, value) => sum + value, 0)).toBeCloseTo(0, 12)
    expect(mean).toBeCloseTo((28 - 3) / 7, 12)
  })

  it('check 41: 1 of 64 calls throws: left out with its reason, not 0, and the run goes on', async () => {
    const budget = new FailureBudget()
    const judge = (value: number) => {
      if (value === 17) throw new Error('no connection')
      return 1
    }
    const results = await judgeEach<number>(judge, { budget })(numbers(64), [])
    expect(results[17]).toEqual({ reward: null, reason: 'Error: no connection', metrics: { reward_failed: 1 } })
    expect(summariseRewards(results)).toMatchObject({ count: 63, leftOut: 1, mean: 1, std: 0 })
    expect(budget.counts).toEqual({ succeeded: 63, failed: 1, consecutive: 0 })
  })

  it('check 41: N failures in a row stop the run, counted over groups in the order of the members', async () => {
    const budget = new FailureBudget({ maxConsecutive: 4 })
    let calls = 0
    const rewards = judgeEach<number>(
      async (value) => {
        // later members finish first: the order of the count does not depend on it
        await new Promise((resolve) => setTimeout(resolve, 5 - value))
        throw new Error(`call ${calls++} for ${value}`)
      },
      { budget },
    )
    await rewards(numbers(2), [])
    await expect(rewards([2, 3], [])).rejects.toMatchObject({ code: 'reward_failures', details: { consecutive: 4 } })
    await expect(judgeEach<number>(() => 1, { budget })([0], [])).resolves.toHaveLength(1)
    expect(budget.counts).toEqual({ succeeded: 1, failed: 4, consecutive: 0 })
  })

  it("check 44: a TypeError in the user's code surfaces once, with its stack, after one call", async () => {
    let calls = 0
    const judge = (value: { deep: { text: string } } | undefined) => {
      calls++
      return value!.deep.text.length
    }
    const failing = judgeEach<undefined>(judge, { budget: new FailureBudget({ maxConsecutive: 1 }) })([undefined], [])
    const error = (await failing.catch((thrown: unknown) => thrown)) as RewardFailuresError
    expect(error).toBeInstanceOf(RewardFailuresError)
    expect(error.cause).toBeInstanceOf(TypeError)
    expect((error.cause as TypeError).stack).toContain('judge-each.test.ts')
    expect(calls).toBe(1)
  })

  it.each<[string, unknown]>([
    ['NaN', Number.NaN],
    ['infinity', Infinity],
    ['text', '1'],
    ['nothing', undefined],
    ['a list', [1]],
    ['a metric that is no number', { reward: 1, metrics: { length: Number.NaN } }],
  ])('leaves out a sample whose reward is %s', async (_, value) => {
    const [result] = await judgeEach<number>(() => value as Judgement)([0], [])
    expect(result).toMatchObject({ reward: null, reason: expect.stringContaining('reward_value') })
  })
})

describe('judgeGroup', () => {
  it('judges a group in one call', async () => {
    const rewards = judgeGroup<number>((values) => values.map((value) => value / values.length))
    expect((await rewards([2, 4], [])).map(({ reward }) => reward)).toEqual([1, 2])
  })

  it('check 23: refuses one reward for eight members, naming both numbers', async () => {
    const failing = judgeGroup<number>(() => [1])(numbers(8), [])
    await expect(failing).rejects.toThrow(RewardValueError)
    await expect(failing).rejects.toMatchObject({
      message: expect.stringMatching(/must return 8 rewards.*got 1/),
      details: { expected: 8, got: 1 },
    })
    await expect(judgeGroup<number>(() => 1 as never)(numbers(8), [])).rejects.toThrow(/got 1$/)
  })

  it('names the member whose reward is none', async () => {
    await expect(judgeGroup<number>(() => [1, Number.NaN])(numbers(2), [])).rejects.toThrow(/reward of member 1/)
  })

  it('leaves the whole group out when its call throws', async () => {
    const results = await judgeGroup<number>(() => {
      throw new Error('away')
    })(numbers(2), [])
    expect(results).toEqual([0, 1].map(() => ({ reward: null, reason: 'Error: away', metrics: { reward_failed: 1 } })))
  })
})
