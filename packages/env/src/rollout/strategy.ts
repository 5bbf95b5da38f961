import { z } from 'zod'
import { parseOptions } from '../options.js'

const maxRetries = z.int().min(0).exactOptional()

/** A {@link Strategy} as it is given. */
export const strategySchema = z.discriminatedUnion(
  'kind',
  [
    z.strictObject({ kind: z.literal('fail-fast') }),
    z.strictObject({ kind: z.literal('retry'), maxRetries }),
    z.strictObject({
      kind: z.literal('minimum-viable'),
      minSuccessful: z.int().positive().exactOptional(),
      maxRetries,
    }),
  ],
  { error: 'expected fail-fast, retry or minimum-viable' },
)

/**
 * What a failure of a member means for its group.
 *
 * - `fail-fast`: the group is over. The others are cancelled, and the error is thrown.
 * - `retry`: only the failed member is tried again, `maxRetries` times in all (default 3) for the group; then the group fails.
 * - `minimum-viable`: the group stands if at least `minSuccessful` members (default: three quarters, rounded up) have a result.
 *   Below that, failed members are tried again once the others are done, `maxRetries` times in all (default 3).
 */
export type Strategy =
  | { readonly kind: 'fail-fast' }
  | { readonly kind: 'retry'; readonly maxRetries?: number }
  | { readonly kind: 'minimum-viable'; readonly minSuccessful?: number; readonly maxRetries?: number }

/** @throws EnvInputError */
export const parseStrategy = (strategy: Strategy): Strategy => parseOptions(strategySchema, strategy, 'strategy')

/** How often members of a group are tried again, in all. */
export const retriesOf = (strategy: Strategy): number =>
  strategy.kind === 'fail-fast' ? 0 : (strategy.maxRetries ?? 3)

/** How many members of a group must have a result. */
export function floorOf(strategy: Strategy, size: number): number {
  if (strategy.kind !== 'minimum-viable') return size
  return Math.min(size, strategy.minSuccessful ?? Math.ceil(0.75 * size))
}
