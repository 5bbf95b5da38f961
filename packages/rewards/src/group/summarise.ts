import type { MemberReward } from './group-rewards.js'

export interface RewardSummary {
  /** Members with a reward. */
  readonly count: number
  /** Members left out. */
  readonly leftOut: number
  /** Of the total rewards of those that have one; null when nobody has. */
  readonly mean: number | null
  /** Standard deviation of the same over the population (divisor n); null when nobody has one. */
  readonly std: number | null
  /** Mean of each metric over the members with a reward that report it. */
  readonly metrics: Readonly<Record<string, number>>
  /** Why members were left out, and how many for each reason. */
  readonly reasons: Readonly<Record<string, number>>
}

/** The numbers of a group, or of many. Spread is that of the total, not of the parts: parts may cancel. */
export function summariseRewards(results: readonly MemberReward[]): RewardSummary {
  const kept = results.filter((result) => result.reward !== null)
  const rewards = kept.map(({ reward }) => reward!)
  const mean = meanOf(rewards)
  const names = new Set(kept.flatMap(({ metrics }) => Object.keys(metrics)))
  const reasons: Record<string, number> = {}
  for (const { reward, reason = 'no reason given' } of results)
    if (reward === null) reasons[reason] = (reasons[reason] ?? 0) + 1
  return {
    count: kept.length,
    leftOut: results.length - kept.length,
    mean,
    std: mean === null ? null : Math.sqrt(meanOf(rewards.map((reward) => (reward - mean) ** 2))!),
    metrics: Object.fromEntries(
      [...names].map((name) => [name, meanOf(kept.flatMap(({ metrics }) => metrics[name] ?? []))!]),
    ),
    reasons,
  }
}

const meanOf = (values: readonly number[]): number | null =>
  values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length
