import { neverAborted } from '@selfplay/env'
import { z } from 'zod'
import { RewardOptionsError } from '../errors.js'
import { mapBounded } from '../map-bounded.js'
import { parseOptions } from '../options.js'
import type { Comparison, PreferenceModel } from './preference.js'
import { symmetrised } from './symmetrised.js'

export interface JudgeWinRateOptions {
  /** Most comparisons at once. Default 8. */
  readonly concurrency?: number
  readonly signal?: AbortSignal
}

const schema = z.strictObject({
  concurrency: z.int().positive().default(8),
  signal: z.instanceof(AbortSignal).default(neverAborted),
})

/**
 * How often A wins against B in the eyes of a judge, each comparison asked in both orders: the mean over comparisons of
 * P(A is better) + P(tie) / 2, and the standard error of that mean (0 for a single comparison).
 *
 * @throws RewardOptionsError when there are no comparisons; what the judge throws; the signal's reason when aborted
 */
export async function judgeWinRate(
  comparisons: readonly Comparison[],
  model: PreferenceModel,
  options: JudgeWinRateOptions = {},
): Promise<{ readonly winRate: number; readonly standardError: number }> {
  const bounds = parseOptions(schema, options, 'judgeWinRate')
  if (comparisons.length === 0) throw new RewardOptionsError('judgeWinRate: expected at least one comparison, got none')
  const both = symmetrised(model)
  const wins = await mapBounded(
    comparisons,
    async (comparison) => {
      const { a, tie } = await both.compare(comparison, { signal: bounds.signal })
      return a + tie / 2
    },
    bounds,
  )
  const n = wins.length
  const mean = wins.reduce((sum, win) => sum + win, 0) / n
  const variance = wins.reduce((sum, win) => sum + (win - mean) ** 2, 0) / Math.max(1, n - 1)
  return { winRate: mean, standardError: Math.sqrt(variance / n) }
}
