import { z } from 'zod'
import { FailureBudget } from '../failure-budget.js'
import { having } from '../options.js'

/**
 * What one member of a group is worth. `reward` null leaves the member out: it is not 0, and the group is centred over the
 * others. `reason` then says why.
 */
export interface MemberReward {
  readonly reward: number | null
  /** Numbers about the member, by name. Must be finite. */
  readonly metrics: Readonly<Record<string, number>>
  readonly reason?: string
}

/**
 * Judges a whole group at once: `computeGroupRewards` of an `EnvGroupBuilder`.
 *
 * @returns one result per trajectory, in their order
 */
export type GroupRewards<T, E = unknown> = (
  trajectories: readonly T[],
  envs: readonly E[],
  options?: { readonly signal?: AbortSignal },
) => Promise<MemberReward[]>

/** How code that judges is called. */
export interface JudgingOptions {
  /** Most calls at once. Default 8. */
  readonly concurrency?: number
  /** A call that has not settled by then has failed. Default 300. */
  readonly timeoutSeconds?: number
  /** Decides when failures stop the run. Share one to count over several functions. Default: a new one, 3 in a row. */
  readonly budget?: FailureBudget
}

export const judgingShape = {
  concurrency: z.int().positive().default(8),
  timeoutSeconds: z.number().positive().default(300),
  budget: having<FailureBudget>('record').default(() => new FailureBudget()),
}

/** The reward that leaves a member out. */
export const leftOut = (reason: string, metrics: Readonly<Record<string, number>> = {}): MemberReward => ({
  reward: null,
  metrics,
  reason,
})
