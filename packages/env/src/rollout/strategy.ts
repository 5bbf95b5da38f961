import { z } from 'zod'
import { EnvInputError } from '../errors.js'
import { parseOptions } from '../options.js'

const retries = z.int().min(0).default(3)
const schemas = {
  'fail-fast': z.strictObject({ kind: z.literal('fail-fast') }),
  retry: z.strictObject({ kind: z.literal('retry'), maxRetries: retries }),
  'minimum-viable': z.strictObject({
    kind: z.literal('minimum-viable'),
    minSuccessful: z.int().positive().optional(),
    maxRetries: retries,
  }),
}

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

export type ParsedStrategy =
  | { readonly kind: 'fail-fast' }
  | { readonly kind: 'retry'; readonly maxRetries: number }
  | { readonly kind: 'minimum-viable'; readonly minSuccessful?: number | undefined; readonly maxRetries: number }

/** @throws EnvInputError */
export function parseStrategy(strategy: Strategy): ParsedStrategy {
  const schema = schemas[strategy.kind]
  if (!schema)
    throw new EnvInputError(
      `strategy: expected kind ${Object.keys(schemas).join(', ')}, got ${JSON.stringify(strategy.kind)}`,
    )
  return parseOptions(schema, strategy, 'strategy') as ParsedStrategy
}

/** How many members of a group must have a result. */
export function floorOf(strategy: ParsedStrategy, size: number): number {
  if (strategy.kind !== 'minimum-viable') return size
  return Math.min(size, strategy.minSuccessful ?? Math.ceil(0.75 * size))
}
