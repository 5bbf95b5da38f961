import type { Attempt } from '../failure-budget.js'
import { leftOut, type MemberReward } from './group-rewards.js'

/**
 * What a member's sum of match results is divided by.
 *
 * - `all_matches`: all matches of the group, 6 for 4 members that meet once. Scores sum to 0.
 * - `own_matches`: the matches that the member itself played. Scores lie in [-1, 1].
 */
export const PAIRWISE_NORMALISATIONS = ['all_matches', 'own_matches'] as const
export type PairwiseNormalisation = (typeof PAIRWISE_NORMALISATIONS)[number]

/**
 * Scores the members of a group by their matches. A match that failed counts for nobody and is in no divisor; a member all of
 * whose matches failed is left out. A member that had no match to play scores 0.
 *
 * @param results for each pair, from the side of its first player: 1 won, 0 tied, -1 lost, or anything between
 */
export function scoreMatches(
  count: number,
  pairs: readonly (readonly [number, number])[],
  results: readonly Attempt<number>[],
  normalise: PairwiseNormalisation,
): MemberReward[] {
  const members = Array.from({ length: count }, () => ({ sum: 0, wins: 0, losses: 0, ties: 0, failed: 0, reason: '' }))
  let judged = 0
  pairs.forEach(([first, second], k) => {
    const result = results[k]!
    for (const [place, sign] of [
      [first, 1],
      [second, -1],
    ] as const) {
      const member = members[place]!
      if (!result.ok) {
        member.failed++
        member.reason ||= result.reason
        continue
      }
      member.sum += sign * result.value
      if (result.value === 0) member.ties++
      else if (sign * result.value > 0) member.wins++
      else member.losses++
    }
    if (result.ok) judged++
  })
  return members.map(({ sum, wins, losses, ties, failed, reason }) => {
    const played = wins + losses + ties
    const counts = { wins, losses, ties, matches: played, matches_failed: failed }
    if (played === 0 && failed > 0) return leftOut(`all ${failed} matches failed; the first: ${reason}`, counts)
    const score = played === 0 ? 0 : sum / (normalise === 'all_matches' ? judged : played)
    return { reward: score, metrics: { win_score: score, ...counts } }
  })
}
