import { neverAborted, type Env, type Trajectory } from '@selfplay/env'
import { z } from 'zod'
import { RewardValueError } from '../errors.js'
import { attempt } from '../failure-budget.js'
import { attemptEach } from '../map-bounded.js'
import { parseOptions, show } from '../options.js'
import { judgingShape, leftOut, type GroupRewards, type JudgingOptions, type MemberReward } from './group-rewards.js'

type Metrics = Readonly<Record<string, number>>

/** What a function that judges may return: a reward, null to leave the member out, or either with metrics. */
export type Judgement =
  number | null | { readonly reward: number | null; readonly metrics?: Metrics; readonly reason?: string }

export interface JudgeContext<E = Env> {
  readonly env: E
  /** The member's place in the group. */
  readonly slot: number
  readonly signal: AbortSignal
}

const schema = z.strictObject(judgingShape)

/**
 * Group rewards from a function that judges one member. It is called once per member.
 *
 * A member whose call throws, does not settle in time or returns what is no reward is left out, with the reason and the metric
 * `reward_failed` 1 (0 for the others).
 *
 * The returned function throws RewardFailuresError when too many calls failed in a row, and the signal's reason when aborted.
 */
export function judgeEach<T = Trajectory, E = Env>(
  judge: (trajectory: T, context: JudgeContext<E>) => Judgement | Promise<Judgement>,
  options: JudgingOptions = {},
): GroupRewards<T, E> {
  const judging = parseOptions(schema, options, 'judgeEach')
  return async (trajectories, envs, { signal = neverAborted } = {}) => {
    const attempts = await attemptEach(
      trajectories,
      async (trajectory, inner, slot) =>
        readJudgement(await judge(trajectory, { env: envs[slot]!, slot, signal: inner }), slot),
      { ...judging, signal },
    )
    return attempts.map((one) =>
      one.ok
        ? { ...one.value, metrics: { ...one.value.metrics, reward_failed: 0 } }
        : leftOut(one.reason, { reward_failed: 1 }),
    )
  }
}

const groupSchema = z.strictObject({ timeoutSeconds: judgingShape.timeoutSeconds, budget: judgingShape.budget })

/**
 * Group rewards from a function that judges all members together. It is called once per group; a group whose call fails is
 * left out whole.
 *
 * The returned function throws RewardValueError when the number of rewards is not that of the members: nothing is spread or
 * cut. Else as {@link judgeEach}.
 */
export function judgeGroup<T = Trajectory, E = Env>(
  judge: (
    trajectories: readonly T[],
    context: { readonly envs: readonly E[]; readonly signal: AbortSignal },
  ) => readonly Judgement[] | Promise<readonly Judgement[]>,
  options: Omit<JudgingOptions, 'concurrency'> = {},
): GroupRewards<T, E> {
  const { budget, timeoutSeconds } = parseOptions(groupSchema, options, 'judgeGroup')
  return async (trajectories, envs, { signal = neverAborted } = {}) => {
    const result = await attempt(async (inner) => await judge(trajectories, { envs, signal: inner }), {
      timeoutSeconds,
      signal,
    })
    budget.record(result)
    if (!result.ok) return trajectories.map(() => leftOut(result.reason, { reward_failed: 1 }))
    const { value }: { value: unknown } = result
    if (!Array.isArray(value) || value.length !== trajectories.length)
      throw new RewardValueError(
        `a reward function must return ${trajectories.length} rewards, one per member of the group, ` +
          `got ${Array.isArray(value) ? value.length : show(value)}`,
        { expected: trajectories.length, got: Array.isArray(value) ? value.length : null },
      )
    return Array.from(value, (one: unknown, slot) => {
      const read = readJudgement(one, slot)
      return { ...read, metrics: { ...read.metrics, reward_failed: 0 } }
    })
  }
}

/** @throws RewardValueError for anything that is no judgement, NaN and infinity included */
function readJudgement(value: unknown, slot: number): MemberReward {
  if (typeof value === 'object' && value !== null && 'reward' in value) {
    const { reward, metrics = {}, reason } = value as { reward: unknown; metrics?: Metrics; reason?: unknown }
    const inner = readJudgement(reward, slot)
    for (const [name, metric] of Object.entries(metrics))
      if (!Number.isFinite(metric))
        throw new RewardValueError(
          `metric "${name}" of member ${slot}: expected a finite number, got ${show(metric)}`,
          {
            slot,
            metric: name,
          },
        )
    if (inner.reward !== null) return { reward: inner.reward, metrics }
    return leftOut(typeof reason === 'string' ? reason : inner.reason!, metrics)
  }
  if (value === null) return leftOut('the reward function returned null')
  if (typeof value === 'number' && Number.isFinite(value)) return { reward: value, metrics: {} }
  throw new RewardValueError(
    `the reward of member ${slot}: expected a finite number, or null to leave it out, got ${show(value)}`,
    { slot, got: show(value) },
  )
}
