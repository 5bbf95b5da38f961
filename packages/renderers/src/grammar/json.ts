/** Python's `json.dumps(value, ensure_ascii=False)`: the spelling in which published templates print JSON. */
export function pythonJson(value: unknown, indent = 0, depth = 0): string {
  if (value === null || typeof value !== 'object') return JSON.stringify(value) ?? 'null'
  const isList = Array.isArray(value)
  const entries = isList
    ? value.map((entry: unknown) => pythonJson(entry, indent, depth + 1))
    : Object.entries(value)
        .filter(([, entry]) => entry !== undefined)
        .map(([key, entry]) => `${JSON.stringify(key)}: ${pythonJson(entry, indent, depth + 1)}`)
  const [open, close] = isList ? ['[', ']'] : ['{', '}']
  if (entries.length === 0) return open + close
  if (indent === 0) return open + entries.join(', ') + close
  const pad = ' '.repeat(indent * (depth + 1))
  return `${open}\n${entries.map((entry) => pad + entry).join(',\n')}\n${' '.repeat(indent * depth)}${close}`
}

/** A copy of a JSON value whose objects have their keys in ascending order. */
export function sortedKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortedKeys)
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))
      .map(([key, entry]) => [key, sortedKeys(entry)]),
  )
}

/**
 * The members of a JSON object, each as the text that stands there. Numbers keep their spelling (`1.0`, `1e20`) and
 * nested objects their blanks, so that what a model wrote can be kept verbatim.
 *
 * @param json valid JSON text of an object
 */
export function rawMembers(json: string): Map<string, string> {
  const members = new Map<string, string>()
  let at = json.indexOf('{') + 1
  while (at < json.length) {
    const keyStart = json.indexOf('"', at)
    if (keyStart < 0) break
    const keyEnd = endOfValue(json, keyStart)
    let valueStart = json.indexOf(':', keyEnd) + 1
    while (/\s/.test(json[valueStart]!)) valueStart++
    const valueEnd = endOfValue(json, valueStart)
    members.set(JSON.parse(json.slice(keyStart, keyEnd)) as string, json.slice(valueStart, valueEnd))
    at = valueEnd
    while (at < json.length && json[at] !== ',' && json[at] !== '}') at++
    if (json[at] === '}') break
    at++
  }
  return members
}

/** The index just after the JSON value that starts at `start`. */
function endOfValue(json: string, start: number): number {
  let depth = 0
  for (let at = start; at < json.length; at++) {
    const character = json[at]!
    if (character === '"') {
      at++
      while (json[at] !== '"') at += json[at] === '\\' ? 2 : 1
      if (depth === 0) return at + 1
    } else if (character === '{' || character === '[') depth++
    else if (character === '}' || character === ']') {
      if (depth === 0) return at
      if (--depth === 0) return at + 1
    } else if (depth === 0 && (character === ',' || /\s/.test(character))) return at
  }
  return json.length
}
