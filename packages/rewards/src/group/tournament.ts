import { RewardOptionsError } from '../errors.js'

/** Who meets whom: every two players once (`all_pairs_one_way`), or once in each order (`all_pairs_both_ways`). */
export const TOURNAMENT_PATTERNS = ['all_pairs_one_way', 'all_pairs_both_ways'] as const
export type TournamentPattern = (typeof TOURNAMENT_PATTERNS)[number]

export interface TournamentOptions {
  /** Default `all_pairs_one_way`. */
  readonly pattern?: TournamentPattern
  /** Players meet within neighbouring chunks of this many, the last may be smaller. At least 2. Default: one chunk of all. */
  readonly chunkSize?: number
}

/**
 * The matches of `count` players as pairs [first, second] of their places.
 *
 * n players in one chunk play n(n-1)/2 matches one way, n(n-1) both ways. A player alone in the last chunk plays none.
 */
export function pairings(count: number, options: TournamentOptions = {}): [first: number, second: number][] {
  const { pattern = 'all_pairs_one_way', chunkSize = Math.max(count, 2) } = options
  if (!Number.isInteger(count) || count < 0)
    throw new RewardOptionsError(`pairings: expected a number of players, got ${count}`, { count })
  if (!Number.isInteger(chunkSize) || chunkSize < 2)
    throw new RewardOptionsError(`pairings.chunkSize: expected an integer of at least 2, got ${chunkSize}`, {
      chunkSize,
    })
  if (!TOURNAMENT_PATTERNS.includes(pattern))
    throw new RewardOptionsError(
      `pairings.pattern: expected ${TOURNAMENT_PATTERNS.join(' or ')}, got ${String(pattern)}`,
    )
  const pairs: [number, number][] = []
  for (let start = 0; start < count; start += chunkSize) {
    const end = Math.min(start + chunkSize, count)
    for (let first = start; first < end; first++)
      for (let second = pattern === 'all_pairs_one_way' ? first + 1 : start; second < end; second++)
        if (second !== first) pairs.push([first, second])
  }
  return pairs
}
