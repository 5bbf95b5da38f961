import { neverAborted, type Env, type Trajectory } from '@selfplay/env'
import { z } from 'zod'
import { RewardOptionsError, RewardValueError } from '../errors.js'
import { attemptEach } from '../map-bounded.js'
import { parseOptions, show } from '../options.js'
import { judgingShape, type GroupRewards, type JudgingOptions } from './group-rewards.js'
import { PAIRWISE_NORMALISATIONS, scoreMatches, type PairwiseNormalisation } from './scores.js'
import { TOURNAMENT_PATTERNS, pairings, type TournamentOptions } from './tournament.js'

export interface CompareContext<E = Env> {
  /** The environments that the two trajectories were played in. */
  readonly envs: readonly [E, E]
  readonly signal: AbortSignal
}

/** 1 when the first is better, -1 when the second is, 0 when neither; anything between says how sure that is. */
export type Compare<T = Trajectory, E = Env> = (
  first: T,
  second: T,
  context: CompareContext<E>,
) => number | Promise<number>

export interface PairwiseOptions extends TournamentOptions, JudgingOptions {
  /** What the sum of a member's results is divided by. Default `all_matches`. */
  readonly normalise?: PairwiseNormalisation
}

const schema = z.strictObject({
  normalise: z.enum(PAIRWISE_NORMALISATIONS).default('all_matches'),
  pattern: z.enum(TOURNAMENT_PATTERNS).default('all_pairs_one_way'),
  chunkSize: z.int().min(2).optional(),
  ...judgingShape,
})

/**
 * Group rewards from comparisons: a match of i and j with result s adds s to i and -s to j; sums are divided as
 * `normalise` says. By default every two members meet once, so 4 members have rewards of k/6 which sum to 0. A group of
 * one gets 0.
 *
 * A comparison that throws counts for neither side; a member without any other is left out. Metrics of each member:
 * `win_score`, `wins`, `losses`, `ties`, `matches`, `matches_failed`.
 *
 * The returned function throws RewardFailuresError when too many comparisons failed in a row, and the signal's reason when
 * aborted. A comparison that returns anything but a number in [-1, 1] has failed.
 */
export function pairwise<T = Trajectory, E = Env>(
  compare: Compare<T, E>,
  options: PairwiseOptions = {},
): GroupRewards<T, E> {
  if (typeof compare !== 'function')
    throw new RewardOptionsError(`pairwise: expected a function that compares two trajectories, got ${show(compare)}`)
  const { normalise, pattern, chunkSize, ...judging } = parseOptions(schema, options, 'pairwise')
  return async (trajectories, envs, { signal = neverAborted } = {}) => {
    const pairs = pairings(trajectories.length, { pattern, ...(chunkSize === undefined ? {} : { chunkSize }) })
    const results = await attemptEach(
      pairs,
      async ([first, second], inner) => {
        const pair = [envs[first]!, envs[second]!] as const
        return checkResult(await compare(trajectories[first]!, trajectories[second]!, { envs: pair, signal: inner }))
      },
      { ...judging, signal },
    )
    return scoreMatches(trajectories.length, pairs, results, normalise)
  }
}

function checkResult(result: unknown): number {
  if (typeof result === 'number' && result >= -1 && result <= 1) return result
  throw new RewardValueError(
    `a comparison returned ${show(result)}: expected a number from -1 (the second is better) to 1 (the first is); ` +
      'Math.sign makes one of a difference',
  )
}
