import type { TrajectoryGroup } from '@selfplay/env'
import { groupAdvantages } from '../magrpo/advantages.js'

/** An episode's rewards: one per step, and what the group gave at its end. */
export interface EpisodeRewards {
  /** [turn]. */
  readonly steps: readonly number[]
  /** Added to the last step. Default 0. */
  readonly group?: number
}

/**
 * Returns to go of one episode of T turns, [T]: G_t = sum over k >= t of discount^(k - t) r_k, where the last r includes the
 * group's reward (Sutton & Barto 2018, equation 3.8). G_0 is the return of the episode.
 */
export function turnReturns({ steps, group = 0 }: EpisodeRewards, discount: number): number[] {
  const returns = steps.map(() => 0)
  let next = 0
  for (let t = steps.length - 1; t >= 0; t--) {
    next = steps[t]! + (t === steps.length - 1 ? group : discount * next)
    returns[t] = next
  }
  return returns
}

export interface CreditOptions {
  readonly credit: 'trajectory' | 'turn'
  readonly mode: 'mean' | 'rloo' | 'none'
  readonly normalize: boolean
  readonly discount: number
}

/** What the members of one group may learn. */
export interface GroupCredit {
  /** Returns to go, [member][turn]. */
  readonly returns: number[][]
  /** [member][turn]. */
  readonly advantages: number[][]
  /** All advantages are 0: there is nothing to learn from this group. */
  readonly constant: boolean
  /** Population standard deviation of the members' returns. */
  readonly std: number
}

/**
 * Advantages of a group, from the rewards of its members.
 *
 * `trajectory`: A_i = G_i0 - b, for every turn of the member. `turn`: A_it = G_it - b_t with b_t over ALL members of the group,
 * where the return to go of an episode that is over is 0. A baseline over only those that are still there would depend on
 * when an episode stops, and so reward its length; this one does not. A group of one has advantage 0 under `mean` and `rloo`.
 */
export function groupCredit(members: readonly EpisodeRewards[], options: CreditOptions): GroupCredit {
  const { credit, mode, normalize, discount } = options
  const returns = members.map((member) => turnReturns(member, discount))
  const totals = returns.map(([first = 0]) => first)
  const std = deviation(totals)
  const advantages = returns.map((list) => list.map(() => 0))
  if (credit === 'trajectory') {
    const { values } = groupAdvantages(totals, { mode, normalize })
    advantages.forEach((list, i) => list.fill(values[i]!))
  } else {
    // One scale for all turns: that of the episodes' returns. A scale per turn would weigh rare late turns up.
    const scale = normalize && std > 0 ? 1 / Math.max(std, 1e-6) : 1
    const turns = Math.max(0, ...returns.map(({ length }) => length))
    for (let t = 0; t < turns; t++) {
      const { values } = groupAdvantages(
        returns.map((list) => list[t] ?? 0),
        { mode, normalize: false },
      )
      advantages.forEach((list, i) => t < list.length && (list[t] = values[i]! * scale))
    }
  }
  return { returns, advantages, constant: advantages.every((list) => list.every((value) => value === 0)), std }
}

/** Population standard deviation; 0 for values that are equal up to rounding. */
function deviation(values: readonly number[]): number {
  if (values.length === 0) return 0
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length
  const std = Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length)
  return std <= 1e-9 * Math.max(1, Math.abs(mean)) ? 0 : std
}

/** The rewards of a group's members, in slot order. */
export const groupRewards = (group: TrajectoryGroup): EpisodeRewards[] =>
  group.members.map(({ trajectory, groupReward }) => ({
    steps: trajectory.transitions.map(({ reward }) => reward),
    group: groupReward,
  }))
