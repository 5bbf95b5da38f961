import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { InvalidInputError, type Datum } from '@selfplay/engine'
import { referenceLoss } from '@selfplay/engine/testing'
import { EnvFromMessageEnv, groupOf, runGroup, type TrajectoryGroup } from '@selfplay/env'
import { byteTokenizer, mockMessageEnv } from '@selfplay/env/testing'
import { assistant, getRenderer, text, thinking, user } from '@selfplay/renderers'
import { assembleDatums, creditBatch } from '../src/rl/assemble.js'
import { groupCredit, turnReturns, type EpisodeRewards } from '../src/rl/credit.js'
import { trajectoryDatums } from '../src/rl/datums.js'
import { penaliseKl } from '../src/rl/kl.js'
import { splitEvenly } from '../src/rl/substeps.js'
import { trajectoryOf } from './support/rl.js'

const plain = { credit: 'trajectory', mode: 'mean', normalize: false, discount: 1 } as const

describe('returns', () => {
  it('check 26: every turn has its own return to go, and the first one is that of the episode', () => {
    expect(turnReturns({ steps: [1, 0, 2] }, 0.5)).toEqual([1 + 0.5 * 0 + 0.25 * 2, 0 + 0.5 * 2, 2])
    expect(turnReturns({ steps: [1, 0, 2] }, 1)).toEqual([3, 2, 2])
    expect(turnReturns({ steps: [1, 0, 2], group: 4 }, 0.5)).toEqual([1 + 0.25 * 6, 3, 6])
    expect(turnReturns({ steps: [] }, 1)).toEqual([])
  })
})

describe('credit', () => {
  it.each(['mean', 'rloo', 'none'] as const)('check 25: a group of one under %s has a defined advantage', (mode) => {
    for (const credit of ['trajectory', 'turn'] as const)
      for (const normalize of [false, true]) {
        const { advantages, constant } = groupCredit([{ steps: [1, 2] }], { ...plain, credit, mode, normalize })
        const want = mode === 'none' ? (credit === 'turn' ? [3, 2] : [3, 3]) : [0, 0]
        expect(advantages).toEqual([want])
        expect(constant).toBe(mode !== 'none')
      }
  })

  it('centres over the group, leaves one out, and scales by the spread where asked to', () => {
    const members = [1, 2, 6].map((reward) => ({ steps: [reward] }))
    const of = (options: object) => groupCredit(members, { ...plain, ...options }).advantages.map(([a]) => a)
    expect(of({})).toEqual([-2, -1, 3])
    expect(of({ mode: 'rloo' })).toEqual([-3, -1.5, 4.5])
    const std = Math.sqrt((4 + 1 + 9) / 3)
    expect(of({ normalize: true }).map((a) => a! * std)).toEqual(
      [-2, -1, 3].map((a) => expect.closeTo(a, 12) as number),
    )
    expect(groupCredit(members, plain).std).toBeCloseTo(std, 12)
  })

  it('check 21: the spread is that of the total, also when its parts cancel', () => {
    const { std, constant } = groupCredit(
      [1, 2, 3].map((x) => ({ steps: [x], group: 5 - x })),
      plain,
    )
    expect(std).toBe(0)
    expect(constant).toBe(true)
  })

  it('sums to 0 over a group, and a constant on all rewards changes nothing', () => {
    const rewards = fc.array(fc.double({ min: -5, max: 5, noNaN: true }), { minLength: 1, maxLength: 6 })
    fc.assert(
      fc.property(rewards, fc.double({ min: -3, max: 3, noNaN: true }), (list, shift) => {
        const of = (by: number) =>
          groupCredit(
            list.map((reward) => ({ steps: [0, reward + by] })),
            plain,
          ).advantages
        expect(Math.abs(of(0).reduce((sum, [a]) => sum + a!, 0))).toBeLessThan(1e-9)
        of(0).forEach(([a], k) => expect(of(shift)[k]![0]).toBeCloseTo(a!, 9))
      }),
      { seed: 3, numRuns: 50 },
    )
  })

  it('credit by turns has no length bias: its mean over all groups of two is half the true gradient', () => {
    // At each of up to 3 turns the policy stops with probability p. Reward of turn t: 1, then -2, then 4.
    const p = 0.3
    const rewards = [1, -2, 4]
    const episodes = [1, 2, 3].map((length) => ({
      rewards: { steps: rewards.slice(0, length) } satisfies EpisodeRewards,
      probability: (1 - p) ** (length - 1) * (length === 3 ? 1 : p),
      // d log pi / dp of each turn's choice; the last turn of three has none.
      scores: rewards.slice(0, length).map((_, t) => (t === 2 ? 0 : t === length - 1 ? 1 / p : -1 / (1 - p))),
    }))
    const gradient = episodes.reduce(
      (sum, { rewards: { steps }, probability, scores }) =>
        sum + probability * scores.reduce((a, b) => a + b, 0) * steps.reduce((a, b) => a + b, 0),
      0,
    )
    const estimate = (credit: 'turn' | 'trajectory') => {
      let mean = 0
      for (const a of episodes)
        for (const b of episodes) {
          const { advantages } = groupCredit([a.rewards, b.rewards], { ...plain, credit })
          const term = [a, b].reduce(
            (sum, { scores }, i) => sum + scores.reduce((inner, score, t) => inner + score * advantages[i]![t]!, 0),
            0,
          )
          mean += (a.probability * b.probability * term) / 2
        }
      return mean
    }
    expect(estimate('turn')).toBeCloseTo(gradient / 2, 10)
    expect(estimate('trajectory')).toBeCloseTo(gradient / 2, 10)
  })
})

describe('training sequences', () => {
  const trained = (datums: readonly { datum: Datum }[]) =>
    datums.flatMap(({ datum }) => [...datum.targets].filter((_, t) => datum.weights![t] === 1))

  it('merges turns while the prompt extends, with weight on sampled tokens alone', () => {
    const { datums, breaks } = trajectoryDatums(
      trajectoryOf([
        [
          [5, 6],
          [7, 0],
        ],
        [
          [5, 6, 7, 0, 8],
          [9, 0],
        ],
      ]),
      [2, -1],
      { temperature: 0.7 },
    )
    expect(breaks).toBe(0)
    expect(datums).toHaveLength(1)
    const { datum, turns, policyVersion } = datums[0]!
    expect([...datum.tokens]).toEqual([5, 6, 7, 0, 8, 9])
    expect([...datum.targets]).toEqual([6, 7, 0, 8, 9, 0])
    expect([...datum.weights!]).toEqual([0, 1, 1, 0, 1, 1])
    expect([...datum.advantages!]).toEqual([0, 2, 2, 0, -1, -1])
    expect([...datum.samplerLogprobs!]).toEqual([0, -0.5, -0.625, 0, -0.5, -0.625])
    expect({ turns, policyVersion, temperature: datum.temperature }).toEqual({
      turns: [0, 1],
      policyVersion: 0,
      temperature: 0.7,
    })
  })

  it('check 11: whatever breaks, each sampled token is trained once, in order, behind what its sampler saw', () => {
    const ids = fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 1, maxLength: 4 })
    const turn = fc.record({ sampled: ids, added: ids, breaks: fc.boolean(), masked: fc.boolean() })
    fc.assert(
      fc.property(ids, fc.array(turn, { maxLength: 5 }), (first, turns) => {
        let prompt = first
        const list = turns.map(({ sampled, added, breaks, masked }) => {
          const entry = [prompt, sampled, { masked }] as const
          prompt = breaks ? added : [...prompt, ...sampled, ...added]
          return entry
        })
        const { datums } = trajectoryDatums(
          trajectoryOf(list),
          list.map((_, t) => t + 1),
        )
        expect(trained(datums)).toEqual(list.flatMap(([, sampled, { masked }]) => (masked ? [] : sampled)))
        const advantages = datums.flatMap(({ datum }) =>
          [...datum.advantages!].filter((_, t) => datum.weights![t] === 0),
        )
        expect(advantages.every((advantage) => advantage === 0)).toBe(true)
        // What stands before each trained token, and what its turn's prompt and sample say should stand there.
        const contexts = datums.flatMap(({ datum }) =>
          [...datum.weights!].flatMap((weight, t) => {
            if (weight === 0) return []
            const [seen, sampled] = list[datum.advantages![t]! - 1]!
            return [
              { is: [...datum.tokens].slice(0, t + 1), want: [...seen, ...sampled.slice(0, t + 1 - seen.length)] },
            ]
          }),
        )
        expect(contexts.map(({ is }) => is)).toEqual(contexts.map(({ want }) => want))
      }),
      { seed: 5, numRuns: 200 },
    )
  })

  it('check 11: a wrong number of log-probs is refused with the turn', () => {
    const broken = (logprobs: Float32Array | undefined) => {
      const whole = trajectoryOf([
        [[5], [6]],
        [[5, 6], [7]],
      ])
      const { logprobs: _dropped, ...action } = whole.transitions[1]!.action
      const second = { ...whole.transitions[1]!, action: { ...action, ...(logprobs && { logprobs }) } }
      return () => trajectoryDatums({ ...whole, transitions: [whole.transitions[0]!, second] }, [0, 0])
    }
    expect(broken(new Float32Array(2))).toThrow(/turn 1: 1 sampled tokens came with 2 log-probs/)
    expect(broken(undefined)).toThrow(/turn 1: its sampler told no log-probs/)
    expect(() => trajectoryDatums(trajectoryOf([[[5], [6]]]), [])).toThrow(InvalidInputError)
    expect(() => trajectoryDatums(trajectoryOf([[[], [6]]]), [1])).toThrow(/turn 0.*empty prompt/)
  })

  it('leaves out turns without a sample, and sequences without a trained token', () => {
    const { datums, sequences } = trajectoryDatums(
      trajectoryOf([
        [[5], [6], { masked: true }],
        [[9], []],
        [[8], [7]],
      ]),
      [1, 1, 1],
    )
    expect(sequences).toBe(2)
    expect(datums.map(({ datum }) => [...datum.tokens])).toEqual([[8]])
  })

  /** Three turns in which the policy thinks and answers. */
  async function thinkThrice(history: 'sampled' | 'template'): Promise<TrajectoryGroup> {
    const renderer = getRenderer('qwen3', byteTokenizer())
    const env = () =>
      new EnvFromMessageEnv({
        renderer,
        history,
        maxGenerationTokens: 200,
        messageEnv: mockMessageEnv((_, { turn }) => ({
          reward: turn,
          episodeDone: turn === 2,
          nextMessages: turn === 2 ? [] : [user(`go on ${turn}`)],
        })),
      })
    let calls = 0
    const sample = () => {
      const question = [user('?')]
      const reply = assistant([thinking(`thought ${++calls}`), text(`answer ${calls}`)])
      const { tokens: whole } = renderer.supervisedExample([...question, reply])
      const tokens = whole.slice(renderer.generationPrompt(question).length)
      return { tokens, logprobs: new Float32Array(tokens.length).fill(-1), stopReason: 'stop' as const }
    }
    return runGroup(groupOf(env, { size: 1 }), { sample })
  }

  it.each(['sampled', 'template'] as const)(
    'check 2: thoughts over three turns, history %s: each sample is trained behind what its sampler saw',
    async (history) => {
      const group = await thinkThrice(history)
      const { transitions } = group.members[0]!.trajectory
      expect(transitions).toHaveLength(3)
      const { datums, breaks } = trajectoryDatums(group.members[0]!.trajectory, [1, 2, 3])
      // The template drops earlier thoughts, so the sequence splits there; sampled history keeps them.
      expect(breaks).toBe(history === 'sampled' ? 0 : 2)
      expect(datums).toHaveLength(breaks + 1)
      expect(trained(datums)).toEqual(transitions.flatMap(({ action }) => [...action.tokens]))
      for (const [turn, { observation, action }] of transitions.entries()) {
        const { datum } = datums.find(({ turns }) => turns[0] <= turn && turn <= turns[1])!
        const whole = [...datum.tokens, datum.targets.at(-1)!]
        expect(whole.slice(0, observation.length + action.tokens.length)).toEqual([...observation, ...action.tokens])
      }
    },
  )

  it('check 16: a sample that is cut off inside a tool call is masked as a whole, with all arrays of one length', () => {
    const tool = [...byteTokenizer().encode('<tool_call>{"name": "f", "argum')]
    const whole = trajectoryOf([
      [
        [1, 2],
        [3, 0],
      ],
      [[1, 2, 3, 0, 4], tool],
    ])
    const cut = {
      ...whole,
      transitions: whole.transitions.map((transition, turn) =>
        turn === 1 ? { ...transition, action: { ...transition.action, stopReason: 'length' as const } } : transition,
      ),
    }
    const { datums } = trajectoryDatums(cut, [1, 1], { maskTruncated: true })
    const { datum } = datums[0]!
    expect(datum.tokens).toHaveLength(4 + tool.length)
    for (const field of ['targets', 'weights', 'advantages', 'samplerLogprobs'] as const)
      expect(datum[field]).toHaveLength(datum.tokens.length)
    expect(trained(datums)).toEqual([3, 0])
    expect(datum.advantages!.reduce((sum, x) => sum + x, 0)).toBe(2)
    expect(trained(trajectoryDatums(cut, [1, 1]).datums)).toEqual([3, 0, ...tool])
  })
})

const groupWith = (rewards: readonly number[], masked: readonly boolean[] = []): TrajectoryGroup => ({
  status: 'complete',
  size: rewards.length,
  members: rewards.map((reward, slot) => ({
    slot,
    attempt: 0,
    groupReward: 0,
    reward,
    metrics: {},
    trajectory: trajectoryOf([[[1, 2], [3 + slot, 0], { reward, masked: masked[slot] ?? false }]]),
  })),
  excluded: [],
  failures: [],
  tags: [],
  metricReducers: {},
})

describe('a batch', () => {
  const options = { ...plain, versions: [0], maxStaleness: 0, keepConstant: false }
  const dataOf = (groups: readonly TrajectoryGroup[]) =>
    assembleDatums(creditBatch(groups, options), {}).flatMap(({ data }) => data.map(({ datum }) => datum))

  it('check 15: masked completions change neither the loss of the others nor what it is divided by', () => {
    const rewards = [1, 2, 3, 6]
    const masked = dataOf([groupWith(rewards, [false, true, false, true])])
    const deleted = dataOf([groupWith(rewards)]).filter((_, k) => k % 2 === 0)
    const loss = (data: Datum[], normalise: 'sum' | 'tokenMean' | 'sequenceMean') =>
      referenceLoss(
        { name: 'importance_sampling', normalise },
        data,
        data.map(({ targets }) => new Float32Array(targets.length).fill(-0.4)),
      ).loss
    for (const normalise of ['sum', 'tokenMean', 'sequenceMean'] as const)
      expect(loss(masked, normalise)).toBe(loss(deleted, normalise))
  })

  it('duplicating a group doubles the summed loss', () => {
    const once = dataOf([groupWith([1, 2, 6])])
    const twice = dataOf([groupWith([1, 2, 6]), groupWith([1, 2, 6])])
    const loss = (data: Datum[]) =>
      referenceLoss(
        { name: 'importance_sampling' },
        data,
        data.map(({ targets }) => new Float32Array(targets.length).fill(-1)),
      ).loss
    expect(loss(twice)).toBeCloseTo(2 * loss(once), 10)
  })

  it('says of each group what is done with it', () => {
    const stale = groupWith([1, 2])
    const failed = { ...groupWith([]), status: 'failed' as const, reason: 'the judge is away' }
    const groups = [groupWith([1, 2]), groupWith([2, 2]), stale, failed]
    const uses = (versions: number[], keepConstant = false) =>
      creditBatch(groups, { ...options, versions, keepConstant }).map(({ use }) => use)
    expect(uses([0])).toEqual(['trained', 'constant', 'trained', 'failed'])
    expect(uses([0], true)).toEqual(['trained', 'trained', 'trained', 'failed'])
    expect(uses([0, 4])).toEqual(['stale', 'stale', 'stale', 'failed'])
  })
})

describe('the KL penalty', () => {
  const datum = (logprobs: number[], weights: number[]): Datum => ({
    tokens: new Int32Array(logprobs.length),
    targets: new Int32Array(logprobs.length),
    weights: Float32Array.from(weights),
    advantages: new Float32Array(logprobs.length),
    samplerLogprobs: Float32Array.from(logprobs),
  })
  const zeros = (episodes: Datum[][]) =>
    episodes.map((list) => list.map(({ targets }) => new Float32Array(targets.length)))

  it('is coef * (mean - d) on trained tokens and nothing on the others', () => {
    const episodes = [[datum([0, -1, -2], [0, 1, 1])], [datum([-3], [1])]]
    const { episodes: out, kl } = penaliseKl(episodes, zeros(episodes), { coef: 0.5, discount: 0 })
    expect(kl).toBe(-2)
    expect(out.map((list) => list.map(({ advantages }) => [...advantages!]))).toEqual([[[0, -0.5, 0]], [[0.5]]])
    expect([...episodes[0]![0]!.advantages!]).toEqual([0, 0, 0])
  })

  it('with a discount adds the later tokens of the episode, over its sequences, and favours no length', () => {
    const episodes = [[datum([0, -1], [0, 1]), datum([-2], [1])], [datum([-4], [1])]]
    const { episodes: out } = penaliseKl(episodes, zeros(episodes), { coef: 1, discount: 0.5 })
    // K: -1 + 0.5 * -2 = -2, -2, -4; mean -8/3.
    const close = (x: number) => expect.closeTo(x, 6) as number
    expect(out.map((list) => list.map(({ advantages }) => [...advantages!]))).toEqual([
      [[0, close(-8 / 3 + 2)], [close(-8 / 3 + 2)]],
      [[close(-8 / 3 + 4)]],
    ])
  })
})

it('cuts data into runs of nearly equal length', () => {
  expect(splitEvenly([1, 2, 3, 4, 5, 6, 7], 3)).toEqual([
    [1, 2],
    [3, 4],
    [5, 6, 7],
  ])
  expect(splitEvenly([1, 2], 5)).toEqual([[1], [2]])
  expect(splitEvenly([], 2)).toEqual([])
})
