import { InvalidInputError } from '@selfplay/engine'
import type { z } from 'zod'

/**
 * Reads one line of a `rollouts.jsonl`.
 *
 * @param format the newest `formatVersion` that can be read
 * @param what the line, in messages
 * @throws InvalidInputError when it is none, or of a newer format
 */
export function parseRolloutLine<S extends z.ZodType>(
  line: string,
  { schema, format, what }: { readonly schema: S; readonly format: number; readonly what: string },
): z.output<S> {
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch {
    throw new InvalidInputError(`expected ${what}, got ${JSON.stringify(line.slice(0, 60))}`)
  }
  const version = (value as { formatVersion?: unknown } | null)?.formatVersion
  if (typeof version === 'number' && version > format) {
    throw new InvalidInputError(
      `this rollout has format version ${version}; this version of selfplay reads up to ${format}: update it`,
      { formatVersion: version },
    )
  }
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  const { path, message } = parsed.error.issues[0]!
  const place = path.length > 0 ? `${path.map(String).join('.')}: ` : ''
  throw new InvalidInputError(`expected ${what}: ${place}${message}`)
}
