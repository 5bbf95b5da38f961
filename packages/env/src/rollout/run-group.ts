import { namesOf } from '../options.js'
import { bounded, follow } from '../deadline.js'
import { neverAborted } from '../on-abort.js'
import { checkMetrics } from '../conversation.js'
import { GroupRewardError, EnvInputError, TimeoutError } from '../errors.js'
import type { EnvGroupBuilder, ExcludedMember, GroupMember, GroupReward, TrajectoryGroup } from '../group.js'
import { Limiter } from '../limiter.js'
import { mergeReducers, type MetricReducers } from '../metrics.js'
import type { Sampler } from '../sampler.js'
import { totalReward, type Env } from '../types.js'
import { across, failureOf, type RolloutFailure } from './failure.js'
import { limitsFor, parseLimits, refuseLimits, type RolloutLimits } from './limits.js'
import { OpenEnvs } from './open-envs.js'
import { runMembers, type Slot } from './run-members.js'
import { floorOf, parseStrategy, type Strategy } from './strategy.js'

export interface GroupRunOptions {
  readonly sample: Sampler
  readonly limits?: Partial<RolloutLimits>
  /** Default `{kind: 'fail-fast'}`. */
  readonly strategy?: Strategy
  /** Most rollouts at the same time. Default 64. */
  readonly concurrency?: number
  /** Most seconds for `computeGroupRewards`; null is no limit. Default 900. */
  readonly rewardTimeoutSeconds?: number | null
  /** Says why a group that is complete or partial is not wanted; `undefined` keeps it. Default: all are wanted. */
  readonly filter?: (group: TrajectoryGroup) => string | undefined
  /** Seeds all samples. The same seed gives the same group, whatever the concurrency. Default: no seeds. */
  readonly seed?: number
  readonly signal?: AbortSignal
}

/** The names of {@link GroupRunOptions}. */
export const groupRunNames = [
  'sample',
  'limits',
  'strategy',
  'concurrency',
  'rewardTimeoutSeconds',
  'filter',
  'seed',
  'signal',
] as const satisfies readonly (keyof GroupRunOptions)[]
const checkNames = namesOf<GroupRunOptions>('runGroup', ...groupRunNames)

/** Options of group runs, complete and checked. */
export interface RunSettings {
  readonly sample: Sampler
  readonly limits: Partial<RolloutLimits>
  readonly strategy: Strategy
  readonly limiter: Limiter
  readonly rewardTimeoutSeconds: number | null
  readonly filter: ((group: TrajectoryGroup) => string | undefined) | undefined
}

/** @throws EnvInputError */
export function runSettings(options: GroupRunOptions): RunSettings {
  const {
    sample,
    limits = {},
    strategy = { kind: 'fail-fast' },
    concurrency = 64,
    rewardTimeoutSeconds = 900,
  } = options
  if (!Number.isInteger(concurrency) || concurrency < 1)
    throw new EnvInputError(`concurrency: expected an integer of at least 1, got ${concurrency}`)
  if (rewardTimeoutSeconds !== null && !(rewardTimeoutSeconds > 0))
    throw new EnvInputError(`rewardTimeoutSeconds: expected seconds above 0 or null, got ${rewardTimeoutSeconds}`)
  return {
    sample,
    limits: parseLimits(limits),
    strategy: parseStrategy(strategy),
    limiter: new Limiter(concurrency),
    rewardTimeoutSeconds,
    filter: options.filter,
  }
}

/**
 * Makes the members of a group, plays them, and rewards them together.
 *
 * @returns what came of it, failures included, in slot order whatever finished first
 * @throws RolloutError under `fail-fast`; the signal's reason when aborted. All members have settled by then, and the
 *   environments are closed
 */
export function runGroup(builder: EnvGroupBuilder, options: GroupRunOptions): Promise<TrajectoryGroup> {
  refuseLimits('runGroup', options, groupRunNames)
  checkNames(options)
  return runGroupWith(builder, runSettings(options), options.seed, options.signal ?? neverAborted)
}

/** {@link runGroup} with settings that several groups share. */
export async function runGroupWith(
  builder: EnvGroupBuilder,
  settings: RunSettings,
  seed: number | undefined,
  signal: AbortSignal,
): Promise<TrajectoryGroup> {
  signal.throwIfAborted()
  const failures: RolloutFailure[] = []
  const { envTimeoutSeconds } = limitsFor({}, settings.limits)
  const open = new OpenEnvs(builder, envTimeoutSeconds, failures)
  const { controller, release } = follow(signal)
  const base: GroupBase = { failures, tags: [], metricReducers: {}, size: 0 }
  try {
    base.tags = await across('builder', controller.signal, () => builder.loggingTags?.() ?? [])
    const envs = await open.makeAll(controller.signal)
    base.size = envs.length
    base.metricReducers = mergeReducers(builder.metricReducers, ...envs.map((env) => env.metricReducers))
    const { sample, limits, strategy, limiter } = settings
    const slots = await runMembers(envs, { sample, limits, strategy, limiter, seed, open, failures, controller })
    signal.throwIfAborted()
    return filtered(await judge(builder, slots, settings, signal, base), settings.filter)
  } catch (error) {
    signal.throwIfAborted()
    if (settings.strategy.kind === 'fail-fast') throw error
    const failure = failureOf(error, null, 0)
    failures.push(failure)
    return failed(base, failure.message)
  } finally {
    release()
    await open.end()
    failures.sort((a, b) => (a.slot ?? Infinity) - (b.slot ?? Infinity) || a.attempt - b.attempt)
  }
}

interface GroupBase {
  failures: readonly RolloutFailure[]
  tags: readonly string[]
  metricReducers: MetricReducers
  size: number
}

const failed = (base: GroupBase, reason: string): TrajectoryGroup => ({
  status: 'failed',
  ...base,
  members: [],
  excluded: [],
  reason,
})

function filtered(group: TrajectoryGroup, filter: RunSettings['filter']): TrajectoryGroup {
  if (!filter || group.status === 'failed') return group
  const reason = filter(group)
  return reason === undefined ? group : { ...group, status: 'filtered', reason }
}

type Finished = Slot & { readonly trajectory: NonNullable<Slot['trajectory']> }

/** Rewards the members that finished, if there are enough of them. */
async function judge(
  builder: EnvGroupBuilder,
  slots: readonly Slot[],
  settings: RunSettings,
  signal: AbortSignal,
  base: GroupBase,
): Promise<TrajectoryGroup> {
  const finished = slots.filter((slot): slot is Finished => slot.trajectory !== undefined)
  const floor = floorOf(settings.strategy, slots.length)
  if (finished.length < floor) {
    const first = slots.find(
      (slot) => slot.error !== undefined && !slot.trajectory && base.failures.some((f) => f.slot === slot.slot),
    )
    if (settings.strategy.kind === 'fail-fast') throw first!.error
    return failed(base, `${finished.length} of ${slots.length} members have a result, at least ${floor} are needed`)
  }
  const rewards = await rewardsOf(builder, finished, settings.rewardTimeoutSeconds, signal)
  const members: GroupMember[] = []
  const excluded: ExcludedMember[] = []
  finished.forEach(({ slot, attempt, trajectory }, k) => {
    const { reward, metrics = {}, reason = 'no reward' } = rewards[k]!
    if (reward === null) excluded.push({ slot, trajectory, reason })
    else
      members.push({
        slot,
        attempt,
        trajectory,
        groupReward: reward,
        reward: totalReward(trajectory) + reward,
        metrics,
      })
  })
  if (members.length === 0) return { ...failed(base, `no member has a reward: ${excluded[0]!.reason}`), excluded }
  return { status: members.length === slots.length ? 'complete' : 'partial', ...base, members, excluded }
}

function rewardsOf(
  builder: EnvGroupBuilder,
  finished: readonly Finished[],
  seconds: number | null,
  signal: AbortSignal,
): Promise<readonly GroupReward[]> {
  return across('reward', signal, async () => {
    if (!builder.computeGroupRewards) return finished.map(() => ({ reward: 0 }))
    const trajectories = finished.map((slot) => slot.trajectory)
    const envs: Env[] = finished.map((slot) => slot.env)
    const expired = () => new TimeoutError('computeGroupRewards', seconds!, 'reward_timeout')
    const rewards = await bounded((inner) => builder.computeGroupRewards!(trajectories, envs, { signal: inner }), {
      signal,
      deadlines: seconds === null ? [] : [{ ms: seconds * 1000, expired }],
    })
    checkRewards(rewards, finished.length)
    return rewards
  })
}

function checkRewards(rewards: readonly GroupReward[], expected: number): void {
  if (!Array.isArray(rewards) || rewards.length !== expected)
    throw new GroupRewardError(
      `computeGroupRewards: expected ${expected} rewards, one per trajectory, got ${Array.isArray(rewards) ? rewards.length : typeof rewards}`,
      { expected },
    )
  rewards.forEach((given: GroupReward, k) => {
    const reward: unknown = given?.reward
    if (typeof given === 'number')
      throw new GroupRewardError(
        `computeGroupRewards: reward ${k} is ${given as number}; expected { reward: ${given as number} }`,
        { index: k },
      )
    if (reward !== null && !Number.isFinite(reward))
      throw new GroupRewardError(
        `computeGroupRewards: reward ${k} is ${typeof reward === 'number' ? reward : typeof reward}; expected a finite number, or null to leave the member out`,
        { index: k },
      )
    checkMetrics(given.metrics, `computeGroupRewards (reward ${k})`)
  })
}
