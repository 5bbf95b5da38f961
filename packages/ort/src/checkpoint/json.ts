import { readFile } from 'node:fs/promises'
import { CheckpointError, InvalidInputError, type CallOptions } from '@selfplay/engine'
import { damaged, refuseSpecialFile, systemFailure } from './problem.js'

export type JsonObject = Record<string, unknown>

export type JsonValue = null | boolean | number | string | readonly JsonValue[] | { readonly [key: string]: JsonValue }

const QUOTE = 34
const BACKSLASH = 92

/** Index just after the string that opens at `start`. The text must be valid JSON. */
function stringEnd(text: string, start: number): number {
  for (let at = start + 1; ; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) return at + 1
    if (code === BACKSLASH) at++
  }
}

function skipBlank(text: string, start: number): number {
  let at = start
  while (' \t\n\r'.includes(text.charAt(at)) && at < text.length) at++
  return at
}

/** Calls `onKey` for every key of every object in `text`, which must be valid JSON; `valueAt` is where the value begins. */
function eachKey(text: string, onKey: (key: string, depth: number, valueAt: number) => void): void {
  let depth = 0
  for (let at = 0; at < text.length; at++) {
    const character = text.charAt(at)
    if (character === '{' || character === '[') onKey('', ++depth, -1)
    else if (character === '}' || character === ']') depth--
    else if (character === '"') {
      const end = stringEnd(text, at)
      const colon = skipBlank(text, end)
      if (text.charAt(colon) === ':') {
        onKey(JSON.parse(text.slice(at, end)) as string, depth, skipBlank(text, colon + 1))
        at = colon
      } else at = end - 1
    }
  }
}

/** The first key that one object of `text` holds twice. `text` must be valid JSON. */
function duplicateKey(text: string): string | undefined {
  const seen: Set<string>[] = []
  let duplicate: string | undefined
  eachKey(text, (key, depth, valueAt) => {
    if (valueAt < 0) seen[depth] = new Set()
    else if (seen[depth]!.has(key)) duplicate ??= key
    else seen[depth]!.add(key)
  })
  return duplicate
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/**
 * The JSON object that `text` holds.
 *
 * @param place What to call the text in an error: a path, or a path and the part of the file.
 * @throws CheckpointError when it is not JSON, not an object, or an object in it holds a key twice.
 */
export function parseJsonObject(text: string, place: string): JsonObject {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw new CheckpointError(
      `${place}: expected a JSON object, got text that is not JSON (${text.length} characters, beginning ${excerpt(text)})`,
      { path: place, expected: 'a JSON object', got: 'text that is not JSON' },
      { cause: error },
    )
  }
  if (!isObject(value)) throw damaged(place, 'a JSON object', Array.isArray(value) ? 'an array' : excerpt(text))
  const duplicate = duplicateKey(text)
  if (duplicate !== undefined) throw damaged(place, 'each key once', `the key ${excerpt(duplicate)} twice`)
  return value
}

/** Text from outside with control characters, which could steer a terminal, written as escapes; line feeds stay. */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (character) =>
    character === '\n' ? character : `\\u{${character.codePointAt(0)!.toString(16)}}`,
  )
}

/** At most 40 characters of outside text, quoted and escaped, for an error message. */
export function excerpt(text: string): string {
  return printable(JSON.stringify(text.length > 40 ? `${text.slice(0, 40)}...` : text))
}

/**
 * A UTF-8 text file, whatever the system's code page; a byte-order mark is dropped.
 * @throws CheckpointError when it cannot be read or is not UTF-8.
 */
export async function readText(path: string, { signal }: CallOptions = {}): Promise<string> {
  signal?.throwIfAborted()
  await refuseSpecialFile(path)
  let bytes: Uint8Array
  try {
    bytes = await readFile(path, { signal })
  } catch (error) {
    signal?.throwIfAborted()
    throw systemFailure(error, 'read', path)
  }
  return decodeUtf8(bytes, path)
}

/** @throws CheckpointError when the bytes are not UTF-8. */
export function decodeUtf8(bytes: Uint8Array, place: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw damaged(place, 'UTF-8 text', 'bytes that are not UTF-8')
  }
}

/** `{text, value}` of a JSON file that must hold one object. */
export async function readJsonObject(
  path: string,
  options: CallOptions = {},
): Promise<{ text: string; value: JsonObject }> {
  const text = await readText(path, options)
  return { text, value: parseJsonObject(text, path) }
}

/**
 * Sets one top-level field of a JSON object in its text; everything else stays as it is, to the byte. (Parsing and
 * writing would turn 1.0 into 1, which typed readers of a config refuse.)
 *
 * @param text A JSON object. A field of this name must hold a string, a number, true, false or null.
 */
export function setJsonField(text: string, field: string, value: string): string {
  let at = -1
  let empty = true
  eachKey(text, (key, depth, valueAt) => {
    if (depth !== 1 || valueAt < 0) return
    empty = false
    if (key === field) at = valueAt
  })
  if (at < 0) {
    const open = text.indexOf('{') + 1
    return `${text.slice(0, open)}\n  ${JSON.stringify(field)}: ${JSON.stringify(value)}${empty ? '\n' : ','}${text.slice(open)}`
  }
  const scalar = /"(?:[^"\\]|\\.)*"|[\w.+-]+/y
  scalar.lastIndex = at
  if (!scalar.test(text))
    throw new InvalidInputError(`cannot set the field "${field}": it holds an object or a list`, { field })
  return text.slice(0, at) + JSON.stringify(value) + text.slice(scalar.lastIndex)
}

/**
 * Refuses what JSON would lose: NaN, infinities, undefined, functions, class instances.
 * @throws InvalidInputError naming the place, e.g. `"extra.rng[2]"`.
 */
export function checkJson(value: unknown, place: string): asserts value is JsonValue {
  if (value === null || typeof value === 'boolean' || typeof value === 'string') return
  if (typeof value === 'number') {
    if (Number.isFinite(value)) return
    throw new InvalidInputError(`${place} is ${value}, which JSON cannot hold`, { place, got: value })
  }
  if (Array.isArray(value)) return value.forEach((item, index) => checkJson(item, `${place}[${index}]`))
  if (isObject(value) && [Object.prototype, null].includes(Object.getPrototypeOf(value) as object | null)) {
    for (const [key, item] of Object.entries(value)) checkJson(item, `${place}.${key}`)
    return
  }
  const got = typeof value === 'object' ? `a ${(value as object).constructor.name}` : typeof value
  throw new InvalidInputError(
    `${place} must be plain JSON (null, boolean, finite number, string, list, object), got ${got}`,
    {
      place,
      got,
    },
  )
}
