import { z } from 'zod'
import { parseOptions } from '../options.js'
import type { Comparison, Preference, PreferenceModel } from './preference.js'

export interface CacheOptions {
  /** Judgements that are kept; the one that was not asked for longest goes first. */
  readonly maxEntries: number
}

const schema = z.strictObject({ maxEntries: z.int().positive() })

/**
 * A judge that remembers. Comparisons are told apart by all they contain, and by the order of A and B. One that is being
 * judged already is not judged again at the same time. Failures are not kept.
 *
 * @throws RewardOptionsError
 */
export function cached(model: PreferenceModel, options: CacheOptions): PreferenceModel {
  const { maxEntries } = parseOptions(schema, options, 'cached')
  const known = new Map<string, Preference>()
  const running = new Map<string, Promise<Preference>>()
  const keep = (key: string, preference: Preference) => {
    known.delete(key)
    known.set(key, preference)
    if (known.size > maxEntries) known.delete(known.keys().next().value!)
  }
  const compare: PreferenceModel['compare'] = async (comparison, callOptions = {}) => {
    callOptions.signal?.throwIfAborted()
    const key = keyOf(comparison)
    const found = known.get(key)
    if (found) {
      keep(key, found)
      return found
    }
    const other = running.get(key)
    if (other) {
      // The other call has its own signal: if it fails, this one judges by itself.
      const result = await other.catch(() => undefined)
      return result ?? (await compare(comparison, callOptions))
    }
    const judging = model.compare(comparison, callOptions)
    running.set(key, judging)
    try {
      const preference = await judging
      keep(key, preference)
      return preference
    } finally {
      running.delete(key)
    }
  }
  return { compare }
}

/** All content in a fixed order of keys. */
const keyOf = ({ prompt, completionA, completionB }: Comparison): string =>
  JSON.stringify([prompt, completionA, completionB], (_, value: unknown) =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort(([x], [y]) => (x < y ? -1 : 1)))
      : value,
  )
