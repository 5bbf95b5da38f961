import { namesOf } from './options.js'
import { EnvInputError } from './errors.js'
import type { MetricReducers, Metrics } from './metrics.js'
import type { RolloutFailure } from './rollout/failure.js'
import type { CallOptions, Env, Trajectory } from './types.js'

type Awaitable<T> = T | Promise<T>

/** What the group gives to one of its members. */
export interface GroupReward {
  /** Added to the step rewards. `null` leaves the member out: it gets no reward at all, and the others are compared without it. */
  readonly reward: number | null
  readonly metrics?: Metrics
  /** Why a member was left out. */
  readonly reason?: string
}

/** Makes the members of one group: environments that share a baseline, normally one problem several times. */
export interface EnvGroupBuilder {
  /** The environments, one per slot. Called once per group; heavy resources are opened here and not before. */
  makeEnvs(options: CallOptions): Awaitable<readonly Env[]>
  /**
   * One environment anew, for a member that is tried again. Without it `makeEnvs` is called and all but this one are closed.
   */
  makeEnv?(slot: number, options: CallOptions): Awaitable<Env>
  /**
   * Looks at the whole group at once: comparisons, judges, joint rewards. Both lists have the members that finished, in slot
   * order, and so has the result. Default: reward 0 for all.
   */
  computeGroupRewards?(
    trajectories: readonly Trajectory[],
    envs: readonly Env[],
    options: CallOptions,
  ): Awaitable<readonly GroupReward[]>
  /** Names under which the group is counted in metrics. Default none. */
  loggingTags?(): readonly string[]
  readonly metricReducers?: MetricReducers
  /** Called once per group at the very end, whatever happened. */
  cleanup?(): void | Promise<void>
}

/** A member that has a result. */
export interface GroupMember {
  readonly slot: number
  /** Attempts before the one that succeeded. */
  readonly attempt: number
  readonly trajectory: Trajectory
  /** What the group gave. */
  readonly groupReward: number
  /** Step rewards and group reward together. */
  readonly reward: number
  /** Metrics of the group reward. */
  readonly metrics: Metrics
}

/** A member that finished and was given no reward. It is no result of 0 and not trained on. */
export interface ExcludedMember {
  readonly slot: number
  readonly trajectory: Trajectory
  readonly reason: string
}

/**
 * What came of a group, as plain data.
 *
 * `complete`: every member has a result. `partial`: some have. `failed`: too few have, and there are no members. `filtered`:
 * nothing went wrong, and the caller's filter does not want it.
 */
export interface TrajectoryGroup {
  readonly status: 'complete' | 'partial' | 'failed' | 'filtered'
  /** Number of slots. 0 when the environments could not be made. */
  readonly size: number
  /** In slot order. */
  readonly members: readonly GroupMember[]
  readonly excluded: readonly ExcludedMember[]
  /** Every failure, those of attempts that were tried again included. */
  readonly failures: readonly RolloutFailure[]
  readonly tags: readonly string[]
  readonly metricReducers: MetricReducers
  /** Why the group failed or was filtered. */
  readonly reason?: string
}

/** `count` things made by the same function, which gets the slot. */
export function repeat<T>(count: number, make: (slot: number) => T): T[] {
  if (!Number.isInteger(count) || count < 1)
    throw new EnvInputError(`repeat: expected a count of at least 1, got ${count}`)
  return Array.from({ length: count }, (_, slot) => make(slot))
}

export interface GroupOptions extends Omit<EnvGroupBuilder, 'makeEnvs' | 'makeEnv' | 'loggingTags'> {
  readonly size: number
  readonly tags?: readonly string[]
}

const checkNames = namesOf<GroupOptions>('groupOf', 'size', 'tags', 'computeGroupRewards', 'metricReducers', 'cleanup')

/** A group of `size` environments, each made by the same function. */
export function groupOf(
  makeEnv: (slot: number, options: CallOptions) => Awaitable<Env>,
  options: GroupOptions,
): EnvGroupBuilder {
  checkNames(options)
  const { size, tags = [], ...rest } = options
  return {
    ...rest,
    makeEnv,
    makeEnvs: (call) => Promise.all(repeat(size, async (slot) => makeEnv(slot, call))),
    loggingTags: () => tags,
  }
}

/**
 * Group rewards from a function of one member. Calls run at the same time. A call that throws leaves its member out, with the
 * error as the reason.
 */
export function rewardEach(
  reward: (trajectory: Trajectory, env: Env, options: CallOptions) => Awaitable<number | GroupReward>,
): NonNullable<EnvGroupBuilder['computeGroupRewards']> {
  return (trajectories, envs, options) =>
    Promise.all(
      trajectories.map(async (trajectory, k): Promise<GroupReward> => {
        try {
          const given = await reward(trajectory, envs[k]!, options)
          return typeof given === 'number' ? { reward: given } : given
        } catch (error) {
          options.signal.throwIfAborted()
          return { reward: null, reason: error instanceof Error ? `${error.name}: ${error.message}` : String(error) }
        }
      }),
    )
}
