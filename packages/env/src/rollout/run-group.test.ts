import { describe, expect, it } from 'vitest'
import { groupOf, repeat, rewardEach, type EnvGroupBuilder, type GroupReward } from '../group.js'
import type { Sampler } from '../sampler.js'
import { hang } from '../testing/index.js'
import type { Env } from '../types.js'
import { RolloutError } from './failure.js'
import { runGroup } from './run-group.js'
import { summarizeGroups } from './summarize.js'
import { boom, builder, env, result, sample, wait, type TestEnv } from './testing/counted-groups.js'

describe('a group', () => {
  it('has its members in slot order, whoever is done first, with step and group rewards', async () => {
    const { built, made, account } = builder(
      4,
      {},
      {
        computeGroupRewards: (trajectories, envs) =>
          trajectories.map((_, k) => ({ reward: 10 * (envs[k] as TestEnv).slot, metrics: { won: k } })),
        loggingTags: () => ['tag'],
        metricReducers: { won: 'sum' },
      },
    )
    const group = await runGroup(built, { sample })
    expect(group).toMatchObject({ status: 'complete', size: 4, tags: ['tag'], failures: [], excluded: [] })
    expect(group.members.map((m) => [m.slot, m.reward, m.groupReward, m.metrics])).toEqual([
      [0, 0, 0, { won: 0 }],
      [1, 11, 10, { won: 1 }],
      [2, 22, 20, { won: 2 }],
      [3, 33, 30, { won: 3 }],
    ])
    expect(made.map((one) => one.closed)).toEqual([1, 1, 1, 1])
    expect(account.cleanups).toBe(1)
  })

  it('check 53: the same seed gives the same group at any concurrency, another seed another one', async () => {
    const run = (seed: number, concurrency: number) => runGroup(builder(6).built, { sample, seed, concurrency })
    const one = await run(7, 1)
    expect(await run(7, 8)).toEqual(one)
    expect(await run(7, 3)).toEqual(one)
    const tokens = (group: typeof one) => group.members.map((m) => m.trajectory.transitions[0]!.action.tokens[0])
    expect(tokens(await run(8, 8))).not.toEqual(tokens(one))
    expect(new Set(tokens(one)).size).toBe(6)
  })

  it('runs no more rollouts at once than it may', async () => {
    let running = 0
    let most = 0
    const counting = groupOf(
      (slot) =>
        env(slot, async () => {
          most = Math.max(most, ++running)
          await wait(2)
          running--
          return result(1)
        }),
      { size: 10 },
    )
    await runGroup(counting, { sample, concurrency: 3 })
    expect(most).toBe(3)
  })

  it('can be filtered, which is no failure', async () => {
    const group = await runGroup(builder(2).built, { sample, filter: () => 'too easy' })
    expect(group).toMatchObject({ status: 'filtered', reason: 'too easy', failures: [] })
    expect(group.members).toHaveLength(2)
  })

  it.each([
    ['no list', () => undefined as unknown as Env[]],
    ['no environment', () => []],
    [
      'one environment twice',
      () => {
        const one = env(0)
        return [one, one]
      },
    ],
  ])('refuses %s from makeEnvs', async (_, makeEnvs) => {
    await expect(runGroup({ makeEnvs }, { sample })).rejects.toMatchObject({
      boundary: 'builder',
      cause: { code: 'invalid_input' },
    })
  })

  it('refuses settings that cannot be used', () => {
    const run = (options: object) => () => runGroup(builder(1).built, { sample, ...options })
    expect(run({ concurrency: 0 })).toThrow(/concurrency/)
    expect(run({ maxTurn: 2 })).toThrow(/runGroup has no option "maxTurn": did you mean limits: { maxTurns }\?/)
    expect(run({ concurency: 2 })).toThrow(/runGroup has no option "concurency".*concurrency/)
    expect(() => groupOf(() => env(0), { size: 2, tag: ['x'] } as never)).toThrow(/groupOf has no option "tag".*tags/)
    expect(run({ rewardTimeoutSeconds: 0 })).toThrow(/rewardTimeoutSeconds/)
    expect(run({ strategy: { kind: 'hope' } })).toThrow(/"hope"/)
    expect(run({ strategy: { kind: 'retry', maxRetrys: 1 } })).toThrow(/"maxRetries"/)
  })
})

describe('fail-fast', () => {
  it('cancels the others, waits for them, cleans up once and throws the first error', async () => {
    let heard = 0
    const slow = () =>
      env(1, () => {
        return hang()
      })
    const listening: TestEnv = {
      ...env(2),
      step: (_, { signal }) => {
        signal.addEventListener('abort', () => heard++)
        return hang()
      },
    }
    let cleanups = 0
    const group = runGroup(
      { makeEnvs: () => [env(0, boom), slow(), listening], cleanup: () => void cleanups++ },
      { sample },
    )
    await expect(group).rejects.toBeInstanceOf(RolloutError)
    await expect(group).rejects.toMatchObject({ boundary: 'env', cause: { message: 'boom' } })
    expect([heard, cleanups]).toEqual([1, 1])
  })
})

describe('retry', () => {
  it('tries only the failed member again, in a fresh environment', async () => {
    const { built, made, account } = builder(3, { 1: 2 })
    const group = await runGroup(built, { sample, strategy: { kind: 'retry' } })
    expect(group.status).toBe('complete')
    expect(group.members.map((m) => [m.slot, m.attempt])).toEqual([
      [0, 0],
      [1, 2],
      [2, 0],
    ])
    expect(group.failures).toMatchObject([
      { slot: 1, attempt: 0, boundary: 'env', code: 'Error', message: 'boom' },
      { slot: 1, attempt: 1 },
    ])
    expect(made.map((one) => one.slot)).toEqual([0, 1, 2, 1, 1])
    expect(made.every((one) => one.closed === 1)).toBe(true)
    expect(account.makeEnvsCalls).toBe(1)
  })

  it('without makeEnv makes the group anew and closes what it does not need', async () => {
    const { made, account } = builder(3, { 1: 1 })
    const { makeEnvs, cleanup } = account.parts
    const group = await runGroup({ makeEnvs, cleanup }, { sample, strategy: { kind: 'retry' } })
    expect(group.status).toBe('complete')
    expect(made).toHaveLength(6)
    expect(made.every((one) => one.closed === 1)).toBe(true)
    expect(account.cleanups).toBe(1)
  })

  it('shares its retries over the group, and fails as data when they are used up', async () => {
    const { built, made, account } = builder(4, { 0: 9 })
    const group = await runGroup(built, { sample, strategy: { kind: 'retry', maxRetries: 2 } })
    expect(group).toMatchObject({ status: 'failed', members: [], size: 4 })
    expect(group.failures.filter((f) => f.slot === 0)).toHaveLength(3)
    expect(made.every((one) => one.closed === 1)).toBe(true)
    expect(account.cleanups).toBe(1)
  })

  it('retries a sample that timed out', async () => {
    let calls = 0
    const flaky: Sampler = (request) => (calls++ === 0 ? hang() : sample(request))
    const group = await runGroup(builder(1).built, {
      sample: flaky,
      limits: { sampleTimeoutSeconds: 0.02 },
      strategy: { kind: 'retry' },
    })
    expect(group).toMatchObject({ status: 'complete', failures: [{ boundary: 'sampler', code: 'sample_timeout' }] })
  })

  it('survives an environment that cannot be made again', async () => {
    let broken = 1
    const { built } = builder(
      2,
      { 0: 1 },
      {
        makeEnv: (slot) => {
          if (broken-- > 0) throw new Error('no sandbox')
          return env(slot)
        },
      },
    )
    const group = await runGroup(built, { sample, strategy: { kind: 'retry' } })
    expect(group.status).toBe('complete')
    expect(group.failures.map((f) => f.boundary)).toEqual(['env', 'builder'])
  })
})

describe('minimum-viable', () => {
  const viable = (size: number, fails: Record<number, number>, rest: object = {}) => {
    const { built, account } = builder(size, fails)
    return runGroup(built, { sample, strategy: { kind: 'minimum-viable', ...rest } }).then((group) => ({
      group,
      account,
    }))
  }

  it('stands with three quarters, without a retry, and says what failed', async () => {
    const { group } = await viable(4, { 2: 9 })
    expect(group).toMatchObject({ status: 'partial', size: 4, failures: [{ slot: 2, attempt: 0 }] })
    expect(group.members.map((m) => m.slot)).toEqual([0, 1, 3])
  })

  it('tries failed members again only below the floor', async () => {
    const { group } = await viable(4, { 1: 1, 2: 9 })
    expect(group).toMatchObject({ status: 'partial', failures: [{ slot: 1 }, { slot: 2 }] })
    expect(group.members.map((m) => [m.slot, m.attempt])).toEqual([
      [0, 0],
      [1, 1],
      [3, 0],
    ])
  })

  it('fails below its floor; what was reached is no reward of 0', async () => {
    const { group, account } = await viable(8, { 0: 9, 1: 9, 2: 9 }, { maxRetries: 1 })
    expect(group).toMatchObject({ status: 'failed', members: [], reason: expect.stringContaining('5 of 8') as string })
    expect(account.cleanups).toBe(1)
  })

  it.each([
    [4, 3],
    [2, 2],
    [8, 6],
    [16, 12],
  ])('of %i needs %i', async (size, floor) => {
    const failing = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, k) => [k, 99]))
    expect((await viable(size, failing(size - floor), { maxRetries: 0 })).group.members).toHaveLength(floor)
    expect((await viable(size, failing(size - floor + 1), { maxRetries: 0 })).group.status).toBe('failed')
  })

  it('takes another floor', async () => {
    expect((await viable(4, { 0: 9, 1: 9, 2: 9 }, { minSuccessful: 1, maxRetries: 0 })).group.status).toBe('partial')
  })
})

describe('group rewards (check 41)', () => {
  const scored = (computeGroupRewards: NonNullable<EnvGroupBuilder['computeGroupRewards']>, options = {}) =>
    runGroup(builder(4, {}, { computeGroupRewards }).built, { sample, strategy: { kind: 'retry' }, ...options })

  it('check 41: one reward of 64 that throws leaves that member out, with the reason, and never as 0', async () => {
    const { built } = builder(
      64,
      {},
      {
        computeGroupRewards: rewardEach((_, one) => {
          if ((one as TestEnv).slot === 17) throw new TypeError('no answer')
          return 1
        }),
      },
    )
    const group = await runGroup(built, { sample })
    expect(group.status).toBe('partial')
    expect(group.members).toHaveLength(63)
    expect(group.excluded).toMatchObject([{ slot: 17, reason: 'TypeError: no answer' }])
    expect(summarizeGroups([group])).toMatchObject({ rollouts_excluded: 1, total_episodes: 63 })
  })

  it('shows the shape of a reward to whoever returns numbers', async () => {
    const numbers = groupOf(() => env(0), { size: 2, computeGroupRewards: (() => [1, 2]) as never })
    await expect(
      runGroup(numbers, { sample: () => ({ tokens: Int32Array.of(0), stopReason: 'stop' }) }),
    ).rejects.toThrow('is 1; expected { reward: 1 }')
  })

  it('null leaves a member out', async () => {
    const group = await scored((all) => all.map((_, k) => ({ reward: k === 0 ? null : 1, reason: 'no verdict' })))
    expect(group.members.map((m) => m.slot)).toEqual([1, 2, 3])
    expect(group.excluded).toMatchObject([{ slot: 0, reason: 'no verdict' }])
  })

  it('is a failed group when all are left out', async () => {
    const group = await scored((all) => all.map(() => ({ reward: null, reason: 'down' })))
    expect(group).toMatchObject({ status: 'failed', reason: expect.stringContaining('down') as string })
  })

  it.each<[string, () => readonly GroupReward[], RegExp]>([
    ['a wrong number', () => [{ reward: 1 }], /expected 4 rewards, one per trajectory, got 1/],
    ['NaN', () => repeat(4, () => ({ reward: Number.NaN })), /reward 0 is NaN/],
    ['no list', () => undefined as never, /got undefined/],
  ])('refuses %s, once and typed', async (_, rewards, message) => {
    const group = await scored(rewards)
    expect(group).toMatchObject({
      status: 'failed',
      failures: [{ slot: null, boundary: 'reward', code: 'group_reward' }],
    })
    expect(group.failures[0]!.message).toMatch(message)
    await expect(scored(rewards, { strategy: { kind: 'fail-fast' } })).rejects.toMatchObject({ boundary: 'reward' })
  })

  it('ends rewards that never come', async () => {
    const group = await scored(hang, { rewardTimeoutSeconds: 0.02 })
    expect(group).toMatchObject({ status: 'failed', failures: [{ boundary: 'reward', code: 'reward_timeout' }] })
  })
})

describe('cleaning up', () => {
  it('happens once, also when nothing could be made, and its own error hides nothing', async () => {
    let cleanups = 0
    const broken: EnvGroupBuilder = {
      makeEnvs: () => Promise.reject(new Error('no room')),
      cleanup: () => {
        cleanups++
        throw new Error('mess')
      },
    }
    await expect(runGroup(broken, { sample })).rejects.toMatchObject({
      boundary: 'builder',
      cause: { message: 'no room' },
    })
    const group = await runGroup(broken, { sample, strategy: { kind: 'retry' } })
    expect(group).toMatchObject({
      status: 'failed',
      size: 0,
      failures: [{ boundary: 'builder' }, { boundary: 'cleanup', message: 'mess' }],
    })
    expect(cleanups).toBe(2)
  })

  it('does not wait for ever', async () => {
    const group = await runGroup(
      { makeEnvs: () => [env(0)], cleanup: hang },
      { sample, limits: { envTimeoutSeconds: 0.02 } },
    )
    expect(group).toMatchObject({ status: 'complete', failures: [{ boundary: 'cleanup', code: 'env_timeout' }] })
  })

  it('happens after an abort', async () => {
    const controller = new AbortController()
    const { built, account, made } = builder(2, {}, { computeGroupRewards: hang })
    const running = runGroup(built, { sample, signal: controller.signal, strategy: { kind: 'retry' } })
    await wait(15)
    controller.abort(new Error('ctrl-c'))
    await expect(running).rejects.toThrow('ctrl-c')
    expect(account.cleanups).toBe(1)
    expect(made.every((one) => one.closed === 1)).toBe(true)
  })
})
