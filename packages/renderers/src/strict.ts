import type { z } from 'zod'
import { didYouMean } from './nearest.js'

/** The parts of zod's schemas that lead to the keys of an object inside. */
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
 * @param what names the data in messages, e.g. `pairwise`
 * @param failure makes the error from its message and details (`{what, problems: {path, message, code}[]}`)
 * @throws that error: each key, what was expected and what came; an unknown key comes with the nearest known one
 */
export function parseStrict<S extends z.ZodType>(
  schema: S,
  value: unknown,
  what: string,
  failure: (message: string, details: Record<string, unknown>) => Error,
): z.output<S> {
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  const problems = parsed.error.issues.map((issue) => {
    const place = [what, ...issue.path.map(String)].join('.')
    if (issue.code !== 'unrecognized_keys') return `${place}${complaint(issue.message, at(value, issue.path))}`
    const known = knownKeys(schema, issue.path)
    return issue.keys.map((key) => `${place} has no option "${key}"${didYouMean(key, known)}`).join('; ')
  })
  throw failure(problems.join('\n'), {
    what,
    problems: parsed.error.issues.map(({ path, message, code }) => ({ path: path.map(String), message, code })),
  })
}

/** What is wrong with a value, in our words where zod says the same twice. */
function complaint(message: string, value: unknown): string {
  const expected = message.replace(/^Invalid input: (.*?)(, received .*)?$/, '$1')
  return value === undefined ? ` is missing: ${expected}` : `: ${expected}, got ${show(value)}`
}

const at = (value: unknown, path: readonly PropertyKey[]): unknown =>
  path.reduce<unknown>((inner, key) => (inner as Record<PropertyKey, unknown> | undefined)?.[key], value)

/** A value as it stands in a message: JSON where there is one, at most 80 characters. */
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
