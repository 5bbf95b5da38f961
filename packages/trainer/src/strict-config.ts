import type { z } from 'zod'
import { ConfigError } from './errors.js'

/** Number of single-character edits between two words. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const substitution = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(substitution, row[j]! + 1, next[j - 1]! + 1))
    }
    row = next
  }
  return row[b.length]!
}

/** The known word nearest to `word`, or undefined when none is near. Case and underscores do not count. */
export function nearest(word: string, known: readonly string[]): string | undefined {
  const plain = (text: string) => text.toLowerCase().replaceAll('_', '')
  const ranked = known
    .map((name) => ({ name, distance: editDistance(plain(word), plain(name)) }))
    .sort((x, y) => x.distance - y.distance)
  const best = ranked[0]
  return best && best.distance <= Math.max(2, Math.ceil(word.length / 3)) ? best.name : undefined
}

interface SchemaParts {
  readonly shape?: Readonly<Record<string, z.ZodType>>
  readonly element?: z.ZodType
  readonly options?: readonly z.ZodType[]
  readonly unwrap?: () => z.ZodType
}

/** The keys that the object schema at `path` knows. */
function knownKeys(schema: z.ZodType, path: readonly PropertyKey[]): string[] {
  const parts = schema as unknown as SchemaParts
  if (parts.shape) {
    const [head, ...rest] = path
    if (head === undefined) return Object.keys(parts.shape)
    const inner = parts.shape[String(head)]
    return inner ? knownKeys(inner, rest) : []
  }
  if (parts.options) return parts.options.flatMap((option) => knownKeys(option, path))
  if (parts.element) return knownKeys(parts.element, path.slice(1))
  if (parts.unwrap) return knownKeys(parts.unwrap(), path)
  return []
}

/**
 * Parses plain data by a strict schema.
 *
 * @param what names the data in messages, e.g. `config`.
 * @throws ConfigError naming each key, what was expected and what came; an unknown key comes with the nearest known one.
 */
export function parseStrict<S extends z.ZodType>(schema: S, value: unknown, what: string): z.output<S> {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  const problems = result.error.issues.map((issue) => {
    const place = [what, ...issue.path.map(String)].join('.')
    if (issue.code === 'unrecognized_keys') {
      const known = knownKeys(schema, issue.path)
      return issue.keys
        .map((key) => {
          const suggestion = nearest(key, known)
          return `${place} has no option "${key}"${suggestion ? `: did you mean "${suggestion}"?` : ''}`
        })
        .join('; ')
    }
    return `${place}: ${issue.message}, got ${show(at(value, issue.path))}`
  })
  throw new ConfigError(problems.join('\n'), {
    problems: result.error.issues.map(({ path, message, code }) => ({ path: path.map(String), message, code })),
  })
}

function at(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>((inner, key) => (inner as Record<PropertyKey, unknown> | undefined)?.[key], value)
}

function show(value: unknown): string {
  if (typeof value === 'function') return 'a function'
  if (typeof value === 'number' || value === undefined) return String(value)
  const text = JSON.stringify(value) ?? typeof value
  return text.length > 80 ? `${text.slice(0, 77)}...` : text
}
