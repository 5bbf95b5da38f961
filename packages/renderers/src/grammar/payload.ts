import type { ToolCallPart } from '../messages.js'
import { concat, data, markup, type Markup } from '../markup.js'
import type { FormatVocabulary } from '../vocabulary.js'
import { rawMembers } from './json.js'

/** How a tool call is written between the markers of its block. `position` counts the calls of a message from 0. */
export interface CallPayload {
  render(call: ToolCallPart, position: number): Markup
  /** Reads the symbols between the markers: the call, or why they are none. */
  parse(symbols: string, vocabulary: FormatVocabulary): ToolCallPart | string
  /** The call as it comes back from parsing what was rendered. */
  normalise(call: ToolCallPart, position: number): ToolCallPart
}

/** Why `json` is not the text of a JSON object, or `undefined` when it is. */
function notAnObject(json: string, what: string): string | undefined {
  let value: unknown
  try {
    value = JSON.parse(json)
  } catch (error) {
    return `invalid JSON in ${what}: ${(error as Error).message}`
  }
  return value !== null && typeof value === 'object' && !Array.isArray(value)
    ? undefined
    : `expected ${what} to be a JSON object`
}

/**
 * A call as one JSON object: `{"name": "...", "arguments": {...}}`. Rendered with Python's blanks as published templates
 * do; on the way back any valid JSON will do, and the arguments are kept as they were written. A string `"id"` is read.
 *
 * @param argumentsKey the name under which the arguments stand
 */
export function jsonPayload(argumentsKey = 'arguments'): CallPayload {
  return {
    render: (call) =>
      concat(markup`{"name": `, data(JSON.stringify(call.name)), data(`, "${argumentsKey}": ${call.arguments}}`)),
    parse(symbols, vocabulary) {
      const json = vocabulary.spell(symbols).trim()
      const broken = notAnObject(json, 'the tool call')
      if (broken !== undefined) return broken
      const members = rawMembers(json)
      const name: unknown = JSON.parse(members.get('name') ?? 'null')
      if (typeof name !== 'string' || !/^\S+$/u.test(name))
        return 'expected "name" to be a non-empty string without blanks'
      const args = members.get(argumentsKey)
      if (args === undefined) return `expected "${argumentsKey}" beside "name"`
      const badArguments = notAnObject(args, `"${argumentsKey}"`)
      if (badArguments !== undefined) return badArguments
      const id: unknown = JSON.parse(members.get('id') ?? 'null')
      return { type: 'tool_call', name, arguments: args, ...(typeof id === 'string' ? { id } : {}) }
    },
    normalise: ({ name, arguments: args }) => ({ type: 'tool_call', name, arguments: args.trim() }),
  }
}

const NAME_HOLE = '\ue000name'
const ARGUMENTS_HOLE = '\ue000arguments'

/**
 * A call as a template with a name and arguments: `<sep>${name}\n${args}`. The parser comes from the template itself,
 * rendered once with placeholders: the name ends at the first, the arguments at the last occurrence of what follows.
 *
 * @param template writes the call
 * @param options.spell how the name is written, where that is not the name itself (`functions.name:0`)
 * @param options.read the name and id in what `spell` wrote, or `undefined` when it is not of that form
 */
export function templatePayload(
  template: (call: { name: string; arguments: string }) => Markup,
  options: {
    spell?: (call: ToolCallPart, position: number) => string
    read?: (spelled: string) => { name: string; id?: string } | undefined
  } = {},
): CallPayload {
  const spell = options.spell ?? ((call) => call.name)
  const read = options.read ?? ((spelled) => ({ name: spelled }))
  return {
    render: (call, position) => template({ name: spell(call, position), arguments: call.arguments }),
    parse(symbols, vocabulary) {
      const pattern = vocabulary.symbols(template({ name: NAME_HOLE, arguments: ARGUMENTS_HOLE }))
      const [before, rest] = pattern.split(NAME_HOLE) as [string, string]
      const [between, after] = rest.split(ARGUMENTS_HOLE) as [string, string]
      const inner = symbols.startsWith(before) ? symbols : symbols.trim()
      const nameEnd = inner.indexOf(between, before.length)
      const argsEnd = after === '' ? inner.length : inner.lastIndexOf(after)
      if (!inner.startsWith(before) || nameEnd < 0 || argsEnd < nameEnd + between.length)
        return `expected a tool call of the form ${vocabulary.spell(pattern).replaceAll('\ue000', '$')}`
      const called = read(vocabulary.spell(inner.slice(before.length, nameEnd)))
      if (!called || !/^\S+$/u.test(called.name)) return 'expected the name of a tool'
      const args = vocabulary.spell(inner.slice(nameEnd + between.length, argsEnd)).trim()
      return notAnObject(args, 'the arguments') ?? { type: 'tool_call', ...called, arguments: args }
    },
    normalise(call, position) {
      const called = read(spell(call, position)) ?? { name: call.name }
      return { type: 'tool_call', ...called, arguments: call.arguments.trim() }
    },
  }
}
