import type { z } from 'zod'
import { InvalidInputError } from './errors.js'

/**
 * Parses plain options by a strict schema.
 *
 * @param what names the options in messages, e.g. `EnvFromMessageEnv`
 * @throws InvalidInputError naming each option, what was expected and what came; an unknown one comes with the nearest known one
 */
export function parseOptions<S extends z.ZodObject>(schema: S, options: unknown, what: string): z.output<S> {
  const parsed = schema.safeParse(options)
  if (parsed.success) return parsed.data
  const problems = parsed.error.issues.map((issue) => {
    const place = [what, ...issue.path.map(String)].join('.')
    if (issue.code !== 'unrecognized_keys') return `${place}: ${issue.message}, got ${show(at(options, issue.path))}`
    const known = issue.path.length === 0 ? Object.keys(schema.shape) : []
    return issue.keys.map((key) => unknownOption(place, key, known)).join('; ')
  })
  throw new InvalidInputError(problems.join('\n'), { what })
}

function unknownOption(place: string, key: string, known: readonly string[]): string {
  const close = nearest(key, known)
  return `${place} has no option "${key}"${close === undefined ? '' : `: did you mean "${close}"?`}`
}

const at = (value: unknown, path: readonly PropertyKey[]): unknown =>
  path.reduce<unknown>((inner, key) => (inner as Record<PropertyKey, unknown> | undefined)?.[key], value)

function show(value: unknown): string {
  if (value === undefined || typeof value === 'number') return String(value)
  if (typeof value === 'function') return 'a function'
  const text = JSON.stringify(value) ?? typeof value
  return text.length > 80 ? `${text.slice(0, 77)}...` : text
}

/** The known word that the given one begins, or else that takes the fewest edits to reach (Levenshtein). */
export function nearest(word: string, known: readonly string[]): string | undefined {
  const given = word.toLowerCase()
  const distanceOf = (name: string) => (name.toLowerCase().startsWith(given) ? 0 : edits(given, name.toLowerCase()))
  return known.map((name) => ({ name, distance: distanceOf(name) })).sort((a, b) => a.distance - b.distance)[0]?.name
}

function edits(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++)
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)))
    row = next
  }
  return row[b.length]!
}
