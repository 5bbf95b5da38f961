import type { JointRewardFunction } from './joint.js'

/** Number of Unicode code points: what Python's `len` counts. An emoji of one code point counts 1, a lone surrogate 1. */
export function charCount(text: string): number {
  let count = 0
  for (const _ of text) count++
  return count
}

export interface LengthRatioOptions {
  /** Smallest good ratio. Default 2. */
  readonly targetMin?: number
  /** Largest good ratio. Default 3. */
  readonly targetMax?: number
  /**
   * What an empty first text is worth. `'zero'` (default): the reward is 0. `'countAsOne'`: it counts as one character,
   * as the multi-turn tutorial has it.
   */
  readonly emptyFirst?: 'zero' | 'countAsOne'
}

/**
 * 1 when the second text is `targetMin` to `targetMax` times as long as the first in characters, else
 * exp(-distance of the ratio to the nearest bound).
 *
 * @throws RangeError when the bounds are not finite or the wrong way round.
 */
export function lengthRatio(first: string, second: string, options: LengthRatioOptions = {}): number {
  const { targetMin = 2, targetMax = 3, emptyFirst = 'zero' } = options
  if (!(Number.isFinite(targetMin) && Number.isFinite(targetMax) && targetMin <= targetMax)) {
    throw new RangeError(`lengthRatio: expected finite targetMin <= targetMax, got ${targetMin} and ${targetMax}`)
  }
  const firstLength = charCount(first)
  if (firstLength === 0 && emptyFirst === 'zero') return 0
  const ratio = charCount(second) / Math.max(firstLength, 1)
  const distance = ratio < targetMin ? targetMin - ratio : ratio > targetMax ? ratio - targetMax : 0
  return Math.exp(-distance)
}

/** {@link lengthRatio} of the first two agents' answers, as a joint reward function. */
export function lengthRatioReward(options: LengthRatioOptions = {}): JointRewardFunction {
  lengthRatio('', '', options) // refuses bad options here, not at the first answer
  return ({ completions: [first = [], second = []] }) =>
    first.map((text, k) => lengthRatio(text, second[k] ?? '', options))
}
