import { RewardOptionsError, RewardValueError } from '../errors.js'
import { show } from '../options.js'
import type { Verdict } from '../verify/verdict.js'

/** What a part may return: a number, or a verdict, of which the score counts. */
export type PartValue = number | Verdict

export interface RewardPart<Input> {
  /** Any finite number; negative for penalties. */
  readonly weight: number
  readonly score: (input: Input, options: { readonly signal: AbortSignal }) => PartValue | Promise<PartValue>
}

export interface WeightedReward<Name extends string = string> {
  /** Sum of weight times score. */
  readonly reward: number
  /** Each part's score by its name, without the weight. */
  readonly metrics: Readonly<Record<Name, number>>
}

/**
 * A reward made of named parts. All parts are scored, at the same time when they are async.
 *
 * The returned function throws whatever a part throws, and RewardValueError naming a part whose score is no finite number:
 * inside {@link judgeEach} that leaves the sample out.
 *
 * @throws RewardOptionsError when there are no parts or a weight is not finite
 */
export function weightedSum<Input, Name extends string>(
  parts: Readonly<Record<Name, RewardPart<Input>>>,
): (input: Input, options: { readonly signal: AbortSignal }) => Promise<WeightedReward<Name>> {
  const entries = Object.entries<RewardPart<Input>>(parts)
  if (entries.length === 0) throw new RewardOptionsError('weightedSum: expected at least one named part, got none')
  for (const [name, { weight, score }] of entries) {
    if (!Number.isFinite(weight))
      throw new RewardOptionsError(`weightedSum.${name}.weight: expected a finite number, got ${show(weight)}`, {
        name,
      })
    if (typeof score !== 'function')
      throw new RewardOptionsError(`weightedSum.${name}.score: expected a function, got ${show(score)}`, { name })
  }
  return async (input, options) => {
    const scores = await Promise.all(
      entries.map(async ([name, { score }]) => [name, readPart(name, await score(input, options))] as const),
    )
    return {
      reward: scores.reduce((sum, [, score], k) => sum + entries[k]![1].weight * score, 0),
      metrics: Object.fromEntries(scores) as Record<Name, number>,
    }
  }
}

function readPart(name: string, value: unknown): number {
  const score = typeof value === 'object' && value !== null && 'score' in value ? value.score : value
  if (typeof score === 'number' && Number.isFinite(score)) return score
  throw new RewardValueError(`reward part "${name}": expected a finite number, got ${show(score)}`, { part: name })
}
