import { z } from 'zod'
import { RewardOptionsError } from './errors.js'

/** Schema of something that is called. */
export const callable = <F>() => z.custom<F>((value) => typeof value === 'function', 'expected a function')

/** Schema of an object that has these methods. */
export const having = <T>(...methods: readonly (keyof T & string)[]) =>
  z.custom<T>(
    (value) =>
      typeof value === 'object' &&
      value !== null &&
      methods.every((name) => typeof (value as Record<string, unknown>)[name] === 'function'),
    `expected an object with ${methods.map((name) => `${name}()`).join(', ')}`,
  )

/**
 * Parses options by a strict schema.
 *
 * @param what names the options in messages, e.g. `pairwise`
 * @throws RewardOptionsError naming each option, what was expected and what came; an unknown one comes with the nearest known one
 */
export function parseOptions<S extends z.ZodObject>(schema: S, options: unknown, what: string): z.output<S> {
  const parsed = schema.safeParse(options)
  if (parsed.success) return parsed.data
  const problems = parsed.error.issues.map((issue) => {
    const place = [what, ...issue.path.map(String)].join('.')
    if (issue.code !== 'unrecognized_keys') return `${place}: ${issue.message}, got ${show(at(options, issue.path))}`
    const known = Object.keys(schema.shape)
    return issue.keys
      .map((key) => {
        const suggestion = issue.path.length === 0 ? nearest(key, known) : undefined
        return `${place} has no option "${key}"${suggestion === undefined ? '' : `: did you mean "${suggestion}"?`}`
      })
      .join('; ')
  })
  throw new RewardOptionsError(problems.join('\n'), { what })
}

const at = (value: unknown, path: readonly PropertyKey[]): unknown =>
  path.reduce<unknown>((inner, key) => (inner as Record<PropertyKey, unknown> | undefined)?.[key], value)

/** A value as it is shown in messages, at most 80 characters. */
export function show(value: unknown): string {
  if (value === undefined || typeof value === 'number') return String(value)
  if (typeof value === 'function') return 'a function'
  if (typeof value === 'bigint') return `${value}n`
  let text: string
  try {
    text = JSON.stringify(value) ?? typeof value
  } catch {
    text = typeof value
  }
  return text.length > 80 ? `${text.slice(0, 77)}...` : text
}

function nearest(word: string, known: readonly string[]): string | undefined {
  let best: string | undefined
  let least = Math.max(2, Math.ceil(word.length / 3)) + 1
  for (const name of known) {
    const distance = edits(word.toLowerCase(), name.toLowerCase())
    if (distance < least) [best, least] = [name, distance]
  }
  return best
}

/** Levenshtein distance. */
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
