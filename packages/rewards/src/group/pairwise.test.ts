import type { Env, Trajectory } from '@selfplay/env'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { FailureBudget } from '../failure-budget.js'
import { RewardFailuresError } from '../errors.js'
import { pairwise } from './pairwise.js'

/** Trajectories of one turn of so many tokens. */
const group = (...lengths: number[]): Trajectory[] =>
  lengths.map((length) => ({
    transitions: [
      {
        observation: Int32Array.of(1),
        action: { tokens: new Int32Array(length), stopReason: 'stop' },
        reward: 0,
        episodeDone: true,
        metrics: {},
        logs: {},
      },
    ],
    finalObservation: new Int32Array(),
    stopReason: 'completed',
  }))
const envs = (count: number): Env[] => Array.from({ length: count }, () => ({}) as Env)
const tokens = ({ transitions }: Trajectory) => transitions.reduce((sum, { action }) => sum + action.tokens.length, 0)
const longer = (a: Trajectory, b: Trajectory) => Math.sign(tokens(a) - tokens(b))
const rewards = (results: readonly { readonly reward: number | null }[]) => results.map(({ reward }) => reward)

describe('pairwise', () => {
  it('is the sum of signs over all pairs of the group, as in the tutorial', async () => {
    const results = await pairwise(longer)(group(5, 9, 9, 2), envs(4))
    // 5 beats 2 and loses twice; each 9 wins twice and ties once; 2 loses three times; over 6 pairs
    expect(rewards(results)).toEqual([-1 / 6, 2 / 6, 2 / 6, -3 / 6])
    expect(results[1]!.metrics).toEqual({
      win_score: 2 / 6,
      wins: 2,
      losses: 0,
      ties: 1,
      matches: 3,
      matches_failed: 0,
    })
  })

  it('divides by own matches on request, and by the same both ways', async () => {
    const options = { normalise: 'own_matches', pattern: 'all_pairs_both_ways' } as const
    expect(rewards(await pairwise(longer, options)(group(5, 9, 9, 2), envs(4)))).toEqual([-1 / 3, 2 / 3, 2 / 3, -1])
  })

  it('gives one that met nobody 0', async () => {
    const results = await pairwise(longer, { chunkSize: 2, normalise: 'own_matches' })(group(1, 2, 3), envs(3))
    expect(rewards(results)).toEqual([-1, 1, 0])
    expect(results[2]!.metrics['matches']).toBe(0)
  })

  it('check 25: a group of one has reward 0, a group of none has no rewards', async () => {
    for (const normalise of ['all_matches', 'own_matches'] as const) {
      expect(rewards(await pairwise(longer, { normalise })(group(7), envs(1)))).toEqual([0])
      expect(await pairwise(longer, { normalise })([], [])).toEqual([])
    }
  })

  it('sums to 0 for every group, pattern and order', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.nat(5), { minLength: 1, maxLength: 9 }),
        fc.constantFrom('all_pairs_one_way', 'all_pairs_both_ways'),
        fc.integer({ min: 2, max: 9 }),
        async (lengths, pattern, chunkSize) => {
          const results = await pairwise(longer, { pattern, chunkSize })(group(...lengths), envs(lengths.length))
          expect(rewards(results).reduce<number>((sum, reward) => sum + reward!, 0)).toBeCloseTo(0, 12)
        },
      ),
      { numRuns: 50 },
    )
  })

  it('passes the environments, and takes graded and async comparisons', async () => {
    const places = envs(2)
    const seen: unknown[] = []
    const compare = async (_a: Trajectory, _b: Trajectory, context: { envs: readonly [Env, Env] }) => {
      seen.push(...context.envs)
      return 0.25
    }
    expect(rewards(await pairwise(compare)(group(1, 1), places))).toEqual([0.25, -0.25])
    expect(seen[0]).toBe(places[0])
    expect(seen[1]).toBe(places[1])
  })

  it('runs at most `concurrency` comparisons at once', async () => {
    let running = 0
    let most = 0
    const compare = async () => {
      most = Math.max(most, ++running)
      await new Promise((resolve) => setTimeout(resolve, 1))
      running--
      return 0
    }
    await pairwise(compare, { concurrency: 3 })(group(1, 2, 3, 4, 5), envs(5))
    expect(most).toBe(3)
  })

  it('check 41: leaves out a comparison that throws, on both sides and in the divisor, and counts it', async () => {
    const compare = (a: Trajectory, b: Trajectory) => {
      if (tokens(a) === 1 && tokens(b) === 2) throw new Error('judge is away')
      return longer(a, b)
    }
    const budget = new FailureBudget()
    const results = await pairwise(compare, { budget })(group(1, 2, 3), envs(3))
    expect(rewards(results)).toEqual([-1 / 2, -1 / 2, 2 / 2])
    expect(results.map(({ metrics }) => metrics['matches_failed'])).toEqual([1, 1, 0])
    expect(budget.counts).toEqual({ succeeded: 2, failed: 1, consecutive: 0 })
  })

  it('check 41: leaves out a member none of whose comparisons worked, with the reason', async () => {
    const compare = (a: Trajectory, b: Trajectory) => {
      if (tokens(a) === 7 || tokens(b) === 7) throw new Error('cannot read 7')
      return longer(a, b)
    }
    const results = await pairwise(compare)(group(7, 2, 3), envs(3))
    expect(results[0]).toMatchObject({ reward: null, reason: expect.stringContaining('cannot read 7') })
    expect(rewards(results).slice(1)).toEqual([-1, 1])
  })

  it('check 41: stops after so many failures in a row, with the first as the cause', async () => {
    let calls = 0
    const compare = () => {
      throw new Error(`failure ${++calls}`)
    }
    const failed = pairwise(compare, { concurrency: 1 })(group(1, 2, 3, 4), envs(4))
    await expect(failed).rejects.toThrow(RewardFailuresError)
    await expect(failed).rejects.toMatchObject({ code: 'reward_failures', cause: { message: 'failure 1' } })
    expect(calls).toBe(3)
  })

  it('takes a result outside [-1, 1] for a failure that says what to do', async () => {
    const compare = (a: Trajectory, b: Trajectory) => tokens(a) - tokens(b)
    const results = await pairwise(compare)(group(1, 9), envs(2))
    expect(results[0]).toMatchObject({ reward: null, reason: expect.stringContaining('Math.sign') })
  })

  it('counts a comparison that never settles as failed, and ends at once when aborted', async () => {
    const never = () => new Promise<number>(() => {})
    const timed = await pairwise(never, { timeoutSeconds: 0.01 })(group(1, 2), envs(2))
    expect(timed[0]).toMatchObject({ reward: null, reason: expect.stringContaining('reward_timeout') })
    const controller = new AbortController()
    const waiting = pairwise(never)(group(1, 2), envs(2), { signal: controller.signal })
    controller.abort(new Error('stop'))
    await expect(waiting).rejects.toThrow('stop')
  })

  it('refuses options that it does not have', () => {
    expect(() => pairwise(longer, { normalize: 'own_matches' } as object)).toThrow(
      'pairwise has no option "normalize": did you mean "normalise"?',
    )
    expect(() => pairwise(longer, { concurrency: 0 })).toThrow(/pairwise.concurrency/)
    expect(() => pairwise(undefined as never)).toThrow(/expected a function/)
  })
})
