import { describe, expect, it } from 'vitest'
import { asked, noEnv, rendererOf, trajectoryOf } from '../../tests/support.js'
import { PairwisePreferenceGroupBuilder, type PairwisePreferenceOptions } from './group-builder.js'
import { judgeWinRate } from './judge-win-rate.js'
import { visibleText } from './messages.js'
import { certain, type Comparison, type PreferenceModel } from './preference.js'

const renderer = rendererOf()
const prompt = asked('Name a cafe.')
const textOf = (messages: Comparison['completionA']) => messages.map(visibleText).join('|')

/** Prefers the longer text. */
const longer: PreferenceModel = {
  async compare({ completionA, completionB }) {
    const difference = textOf(completionA).length - textOf(completionB).length
    return certain(difference > 0 ? 'A' : difference < 0 ? 'B' : 'Tie')
  },
}

const builderOf = (options: Partial<PairwisePreferenceOptions> = {}) =>
  new PairwisePreferenceGroupBuilder({
    prompt,
    renderer,
    preferenceModel: longer,
    numEnvs: 3,
    makeEnv: () => noEnv,
    ...options,
  })
const judge = async (
  replies: readonly (string | { readonly malformed: string } | null)[],
  options: Partial<PairwisePreferenceOptions> = {},
) =>
  await builderOf(options).computeGroupRewards(
    replies.map((reply) => trajectoryOf(renderer, prompt, reply === null ? [] : [reply])),
    replies.map(() => noEnv),
  )
const rewards = (results: readonly { readonly reward: number | null }[]) => results.map(({ reward }) => reward)

describe('PairwisePreferenceGroupBuilder', () => {
  it('scores members by their own matches', async () => {
    const results = await judge(['a', 'bbb', 'cc'])
    expect(rewards(results)).toEqual([-1, 1, 0])
    expect(results[1]!.metrics).toEqual({
      win_minus_loss: 1,
      wins: 2,
      losses: 0,
      ties: 0,
      matches: 2,
      matches_failed: 0,
      format: 1,
    })
  })

  it('takes the format coefficient off an answer that did not stop by itself, and judges it all the same', async () => {
    expect(rewards(await judge(['a', { malformed: 'bbb' }, 'cc']))).toEqual([-1, 0, 0])
    expect(rewards(await judge(['a', { malformed: 'bbb' }, 'cc'], { formatCoefficient: 0.25 }))).toEqual([-1, 0.75, 0])
  })

  it('plays in chunks, and both ways', async () => {
    const words = ['a', 'bb', 'ccc', 'dddd', 'e']
    expect(rewards(await judge(words, { matchupGroupSize: 2 }))).toEqual([-1, 1, -1, 1, 0])
    const seen: string[] = []
    const preferenceModel: PreferenceModel = {
      async compare({ completionA, completionB }) {
        seen.push(`${textOf(completionA)}-${textOf(completionB)}`)
        return { a: 0.5, b: 0.25, tie: 0.25, labelMass: 0.5, orderGap: 0.1 }
      },
    }
    const results = await judge(['x', 'y'], { pattern: 'all_pairs_both_ways', preferenceModel })
    expect(seen).toEqual(['x-y', 'y-x'])
    expect(rewards(results)).toEqual([0, 0]) // a judge with a bias for a place: it cancels
    expect(results[0]!.metrics).toMatchObject({ judge_label_mass: 0.5, judge_order_gap: 0.1 })
  })

  it('leaves out a member that never answered; nobody meets it', async () => {
    const results = await judge(['a', null, 'cc'])
    expect(rewards(results)).toEqual([-1, null, 1])
    expect(results[1]!.reason).toMatch(/never answered/)
  })

  it('check 41: leaves out matches that fail, and members without others', async () => {
    const preferenceModel: PreferenceModel = {
      async compare(comparison) {
        if (textOf(comparison.completionA) === 'bad' || textOf(comparison.completionB) === 'bad')
          throw new Error('away')
        return await longer.compare(comparison)
      },
    }
    const results = await judge(['a', 'cc', 'bad'], { preferenceModel })
    expect(rewards(results)).toEqual([-1, 1, null])
    expect(results[2]).toMatchObject({ reason: expect.stringContaining('away'), metrics: { matches_failed: 2 } })
  })

  it('hides reasoning from the judge, and shows several turns as it is told', async () => {
    const format = rendererOf('qwen3_disable_thinking')
    const seen: string[] = []
    const preferenceModel: PreferenceModel = {
      async compare({ completionA }) {
        seen.push(JSON.stringify(completionA))
        return certain('Tie')
      },
    }
    const options = { renderer: format, preferenceModel }
    const two = trajectoryOf(format, prompt, ['one', 'two'])
    await builderOf(options).computeGroupRewards([two, two], [noEnv, noEnv])
    expect(seen.pop()).toMatch(/one.*two/)
    const completionOf = () => [...asked('in between')]
    await builderOf({ ...options, completionOf }).computeGroupRewards([two, two], [noEnv, noEnv])
    expect(seen.pop()).toMatch(/in between/)
  })

  it('makes its environments, and one anew', async () => {
    const slots: number[] = []
    const makeEnv = (slot: number) => {
      slots.push(slot)
      return noEnv
    }
    const builder = builderOf({ makeEnv, tags: ['cafes'] })
    expect(await builder.makeEnvs()).toHaveLength(3)
    await builder.makeEnv(2)
    expect(slots).toEqual([0, 1, 2, 2])
    expect(builder.loggingTags()).toEqual(['cafes'])
  })

  it('check 25: a group of one has reward 0', async () => {
    expect(rewards(await judge(['a']))).toEqual([0])
  })

  it('refuses what it cannot use', async () => {
    expect(() => builderOf({ prompt: [] })).toThrow(/at least one message/)
    expect(() => builderOf({ numEnv: 2 } as object)).toThrow(/mean "numEnvs"/)
    await expect(builderOf().computeGroupRewards([], [noEnv])).rejects.toThrow(/as many environments/)
  })
})

describe('judgeWinRate', () => {
  const against = (a: string): Comparison => ({
    prompt,
    completionA: [{ role: 'assistant', content: a }],
    completionB: [{ role: 'assistant', content: 'xx' }],
  })

  it('asks in both orders and gives the mean and its error', async () => {
    const { winRate, standardError } = await judgeWinRate(
      [against('x'), against('xxx'), against('xx'), against('xxx')],
      longer,
    )
    expect(winRate).toBe((0 + 1 + 0.5 + 1) / 4)
    expect(standardError).toBeCloseTo(Math.sqrt((0.625 ** 2 + 0.375 ** 2 + 0.125 ** 2 + 0.375 ** 2) / 3 / 4), 12)
    const first: PreferenceModel = { compare: async () => certain('A') } // always the first
    expect((await judgeWinRate([against('x')], first)).winRate).toBe(0.5)
  })

  it('refuses no comparisons', async () => {
    await expect(judgeWinRate([], longer)).rejects.toThrow(/at least one/)
  })
})
