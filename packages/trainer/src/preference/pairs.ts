import { Random } from '@selfplay/env'
import type { PreferenceSettings } from './config.js'

/** One agent's half of a joint answer. */
export interface PairSide {
  readonly text: string
  /** Prompt ids; empty for a scripted agent. */
  readonly prompt: Int32Array
  /** Sampled ids, the end token included. */
  readonly tokens: Int32Array
  /** Sum of the log-probs of `tokens` under the reference, at the agent's sampling temperature. */
  readonly referenceLogprob: number
}

/** Two joint answers to one prompt, of which one earned more. Both are [agent]. */
export interface PreferencePair {
  /** Index of the row in the data set. */
  readonly rowIndex: number
  readonly winner: readonly PairSide[]
  readonly loser: readonly PairSide[]
  readonly winnerReward: number
  readonly loserReward: number
}

/** Which candidates make a pair. */
export interface CandidatePair {
  readonly winner: number
  readonly loser: number
  readonly gap: number
}

/**
 * Chooses pairs among the candidates of one prompt.
 *
 * @param rewards of the candidates; null: left out.
 * @param seed decides `random`.
 * @returns `reward_gap`: the largest differences first, equal ones by index; `random`: in random order; `all`: by index.
 */
export function selectPairs(
  rewards: readonly (number | null)[],
  {
    pairSelection,
    preferencePairsPerSample,
    minRewardGap,
  }: Pick<PreferenceSettings, 'pairSelection' | 'preferencePairsPerSample' | 'minRewardGap'>,
  seed: number,
): CandidatePair[] {
  const pairs: CandidatePair[] = []
  rewards.forEach((a, i) => {
    for (let j = i + 1; j < rewards.length; j++) {
      const b = rewards[j] ?? null
      if (a === null || b === null || !(Math.abs(a - b) > minRewardGap)) continue
      pairs.push(a > b ? { winner: i, loser: j, gap: a - b } : { winner: j, loser: i, gap: b - a })
    }
  })
  if (pairSelection === 'all') return pairs
  const ordered = pairSelection === 'random' ? new Random(seed).shuffle(pairs) : pairs.sort((x, y) => y.gap - x.gap)
  return ordered.slice(0, preferencePairsPerSample ?? pairs.length)
}
