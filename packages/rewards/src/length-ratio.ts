import { z } from 'zod'
import type { JointRewardFunction } from './joint.js'
import { parseOptions } from './options.js'

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

const schema = z
  .strictObject({
    targetMin: z.number().default(2),
    targetMax: z.number().default(3),
    emptyFirst: z.enum(['zero', 'countAsOne']).default('zero'),
  })
  .refine(({ targetMin, targetMax }) => targetMin <= targetMax, 'expected targetMin <= targetMax')

/**
 * 1 when the second text is `targetMin` to `targetMax` times as long as the first in characters, else
 * exp(-distance of the ratio to the nearest bound).
 *
 * @throws RewardOptionsError for an unknown option, with the nearest known one, and bounds that are not finite or the wrong way
 *   round.
 */
export const lengthRatio = (first: string, second: string, options: LengthRatioOptions = {}): number =>
  score(first, second, parseOptions(schema, options, 'lengthRatio'))

/** {@link lengthRatio} of the first two agents' answers, as a joint reward function. */
export function lengthRatioReward(options: LengthRatioOptions = {}): JointRewardFunction {
  const parsed = parseOptions(schema, options, 'lengthRatioReward')
  return ({ completions: [first = [], second = []] }) => first.map((text, k) => score(text, second[k] ?? '', parsed))
}

function score(first: string, second: string, { targetMin, targetMax, emptyFirst }: z.output<typeof schema>): number {
  const firstLength = charCount(first)
  if (firstLength === 0 && emptyFirst === 'zero') return 0
  const ratio = charCount(second) / Math.max(firstLength, 1)
  const distance = ratio < targetMin ? targetMin - ratio : ratio > targetMax ? ratio - targetMax : 0
  return Math.exp(-distance)
}
