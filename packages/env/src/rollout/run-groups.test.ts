import { describe, expect, it } from 'vitest'
import { groupOf } from '../group.js'
import { hang } from '../testing/index.js'
import { FailureGuard } from './failure-guard.js'
import { runGroups } from './run-groups.js'
import { summarizeByTag, summarizeGroups } from './summarize.js'
import { builder, env, result, sample } from './testing/counted-groups.js'

describe('runGroups', () => {
  it('gives the groups in the order of their builders, each with a seed of its own', async () => {
    const builders = [builder(1), builder(5), builder(2)].map((one) => one.built)
    const groups = await runGroups(builders, { sample, seed: 3, concurrency: 2 })
    expect(groups.map((group) => group.size)).toEqual([1, 5, 2])
    expect(await runGroups(builders, { sample, seed: 3, concurrency: 8 })).toEqual(groups)
    const tokens = groups.flatMap((group) => group.members.map((m) => m.trajectory.transitions[0]!.action.tokens[0]))
    expect(new Set(tokens).size).toBe(8)
  })

  it('fail-fast ends all groups and cleans up those that were opened', async () => {
    const all = [builder(2), builder(2, { 0: 9 }), builder(2, {}, { computeGroupRewards: hang })]
    const running = runGroups(
      all.map((one) => one.built),
      { sample },
    )
    await expect(running).rejects.toMatchObject({ boundary: 'env' })
    expect(all.map((one) => one.account.cleanups)).toEqual([1, 1, 1])
  })

  it('check 41: goes on after failures, and stops after so many in a row with the first cause', async () => {
    const strategy = { kind: 'retry', maxRetries: 0 } as const
    const batch = (pattern: string) => pattern.split('').map((kind) => builder(1, kind === 'x' ? { 0: 9 } : {}).built)
    const guard = new FailureGuard(3)
    const groups = await runGroups(batch('xx.xx'), { sample, strategy, guard })
    expect(groups.map((group) => group.status)).toEqual(['failed', 'failed', 'complete', 'failed', 'failed'])
    expect(guard.inARow).toBe(2)
    const first = 'env: Error: boom'
    expect(guard.counts).toEqual({ succeeded: 1, consecutive: 2, first })
    // Another process goes on from the numbers.
    const resumed = new FailureGuard(3, guard.counts)
    const error = await runGroups(batch('x.'), { sample, strategy, guard: resumed }).catch((thrown: unknown) => thrown)
    const details = { count: 3, first }
    expect(error).toMatchObject({ code: 'consecutive_failures', details, cause: new Error(first) })
    expect((error as Error).message).toBe(`3 groups in a row failed; the first one because of ${first}`)
  })
})

describe('summaries', () => {
  it('count failed and filtered apart, and reduce metrics as declared', async () => {
    const cut = (slot: number) =>
      env(slot, () => ({ ...result(0), stopReason: slot < 2 ? 'max_tokens' : 'completed', metrics: { used: slot } }))
    const good = groupOf(cut, { size: 8, tags: ['a'], metricReducers: { used: 'sum' } })
    const groups = await runGroups([good, builder(1, { 0: 9 }).built], {
      sample,
      strategy: { kind: 'retry', maxRetries: 0 },
    })
    const summary = summarizeGroups(groups)
    expect(summary).toMatchObject({
      'stop/max_tokens': 0.25,
      used: 28,
      total_episodes: 8,
      total_turns: 8,
      ac_tokens_per_turn: 1,
      turns_per_episode: 1,
      'reward/total': 0,
      'groups/complete': 1,
      'groups/failed': 1,
      'groups/filtered': 0,
      'rollout_errors/Error': 1,
      'rollout_errors/total': 1,
      'by_group/frac_all_bad': 1,
    })
    expect(Object.keys(summarizeByTag(groups))).toEqual(['a'])
    expect(summarizeByTag(groups)['a']).toMatchObject({ 'groups/failed': 0 })
    expect(summarizeGroups([])).toMatchObject({ total_episodes: 0 })
  })
})
