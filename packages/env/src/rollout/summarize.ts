import type { TrajectoryGroup } from '../group.js'
import { mergeReducers, reduceMetrics, type Metrics } from '../metrics.js'

/**
 * The numbers of a batch of groups: sizes, rewards, the environments' own metrics (reduced as they declare), and how many
 * groups and rollouts failed or were filtered. Filtered groups count in all numbers; failed ones have no episodes to count.
 *
 * Names: `ac_tokens_per_turn`, `ob_tokens_per_turn`, `turns_per_episode`, `total_episodes`, `total_turns`, `total_ac_tokens`,
 * `total_ob_tokens`, `reward/total`, `by_group/frac_mixed|frac_all_good|frac_all_bad`, `groups/<status>`,
 * `rollout_errors/<code>`, `rollout_errors/total`, `rollouts_excluded`.
 */
export function summarizeGroups(groups: readonly TrajectoryGroup[]): Metrics {
  const members = groups.flatMap((group) => group.members)
  const episodes = members.map(({ trajectory, metrics }) => [...trajectory.transitions.map((t) => t.metrics), metrics])
  const own = reduceMetrics(episodes, mergeReducers(...groups.map((group) => group.metricReducers)))
  // A step without sampled tokens carries a reward and was no turn.
  const turns = members.flatMap(({ trajectory }) => trajectory.transitions.filter((t) => t.action.tokens.length > 0))
  const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0)
  const acTokens = sum(turns.map((turn) => turn.action.tokens.length))
  const obTokens = sum(turns.map((turn) => turn.observation.length))
  const count = members.length
  const perEpisode =
    count === 0
      ? {}
      : { turns_per_episode: turns.length / count, 'reward/total': sum(members.map((m) => m.reward)) / count }
  const perTurn =
    turns.length === 0
      ? {}
      : { ac_tokens_per_turn: acTokens / turns.length, ob_tokens_per_turn: obTokens / turns.length }
  return {
    ...own,
    ...perTurn,
    ...perEpisode,
    total_episodes: count,
    total_turns: turns.length,
    total_ac_tokens: acTokens,
    total_ob_tokens: obTokens,
    ...byGroup(groups),
    ...counts(groups),
  }
}

/** {@link summarizeGroups} of the groups of each tag, for tags that not all groups carry. */
export function summarizeByTag(groups: readonly TrajectoryGroup[]): Readonly<Record<string, Metrics>> {
  const tags = [...new Set(groups.flatMap((group) => group.tags))]
  const of = (tag: string) => groups.filter((group) => group.tags.includes(tag))
  return Object.fromEntries(
    tags.filter((tag) => of(tag).length < groups.length).map((tag) => [tag, summarizeGroups(of(tag))]),
  )
}

/** Shares of the groups whose rewards differ, are all equal and at least 0.5, are all equal and below. */
function byGroup(groups: readonly TrajectoryGroup[]): Metrics {
  const rewards = groups.map((group) => group.members.map((m) => m.reward)).filter((list) => list.length > 0)
  if (rewards.length === 0) return {}
  const equal = rewards.filter((list) => list.every((reward) => reward === list[0]))
  const good = equal.filter((list) => list[0]! >= 0.5).length
  return {
    'by_group/frac_mixed': (rewards.length - equal.length) / rewards.length,
    'by_group/frac_all_good': good / rewards.length,
    'by_group/frac_all_bad': (equal.length - good) / rewards.length,
  }
}

function counts(groups: readonly TrajectoryGroup[]): Metrics {
  const counted: Record<string, number> = {}
  const add = (name: string, by = 1) => (counted[name] = (counted[name] ?? 0) + by)
  for (const status of ['complete', 'partial', 'failed', 'filtered']) counted[`groups/${status}`] = 0
  counted['rollout_errors/total'] = 0
  counted['rollouts_excluded'] = 0
  for (const group of groups) {
    add(`groups/${group.status}`)
    add('rollouts_excluded', group.excluded.length)
    for (const failure of group.failures) {
      add('rollout_errors/total')
      add(`rollout_errors/${failure.code}`)
    }
  }
  return counted
}
