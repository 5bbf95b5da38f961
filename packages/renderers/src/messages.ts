import { z } from 'zod'
import { InvalidMessagesError } from './errors.js'

/** Text that the reader of the message sees. */
const textPartSchema = z.strictObject({ type: z.literal('text'), text: z.string() })

/** Reasoning that comes before an answer and is no part of it. */
const thinkingPartSchema = z.strictObject({ type: z.literal('thinking'), thinking: z.string() })

const toolName = z.string().regex(/^\S{1,256}$/u, 'a tool name has 1 to 256 characters and no white space')

function isObjectText(json: string): boolean {
  try {
    const value: unknown = JSON.parse(json)
    return value !== null && typeof value === 'object' && !Array.isArray(value)
  } catch {
    return false
  }
}

/** A call of a tool. `arguments` is the JSON text of an object, verbatim as the model wrote it. */
const toolCallPartSchema = z.strictObject({
  type: z.literal('tool_call'),
  id: z.string().optional(),
  name: toolName,
  arguments: z.string().refine(isObjectText, 'expected the JSON text of an object'),
})

/** What stands where a tool call should be, and why it is none. */
const unparsedToolCallPartSchema = z.strictObject({
  type: z.literal('unparsed_tool_call'),
  rawText: z.string(),
  error: z.string(),
})

export const contentPartSchema = z.discriminatedUnion('type', [
  textPartSchema,
  thinkingPartSchema,
  toolCallPartSchema,
  unparsedToolCallPartSchema,
])

export const roleSchema = z.enum(['system', 'user', 'assistant', 'tool'])

/** One message of a conversation. Unknown keys are refused. */
export const messageSchema = z.strictObject({
  role: roleSchema,
  /** A string, or parts in the order in which they were written. A string is one text part. */
  content: z.union([z.string(), z.array(contentPartSchema)]),
  /** Of a tool result: the tool that gave it. */
  name: z.string().optional(),
  /** Of a tool result: the `id` of the call that it answers. */
  toolCallId: z.string().optional(),
  /** Only for `trainOn: 'customized'`: whether the message is trained. */
  trainable: z.boolean().optional(),
})

/** A tool as declared to a model: `parameters` is a JSON schema of an object. */
export const toolSpecSchema = z.strictObject({
  name: toolName,
  description: z.string(),
  parameters: z.record(z.string(), z.unknown()),
})

export type TextPart = z.infer<typeof textPartSchema>
export type ThinkingPart = z.infer<typeof thinkingPartSchema>
export type ToolCallPart = z.infer<typeof toolCallPartSchema>
export type UnparsedToolCallPart = z.infer<typeof unparsedToolCallPartSchema>
export type ContentPart = z.infer<typeof contentPartSchema>
export type Role = z.infer<typeof roleSchema>
export type Message = z.infer<typeof messageSchema>
export type ToolSpec = z.infer<typeof toolSpecSchema>

type Content = Message['content']
export const system = (content: Content): Message => ({ role: 'system', content })
export const user = (content: Content): Message => ({ role: 'user', content })
export const assistant = (content: Content): Message => ({ role: 'assistant', content })
/** The result of a tool call, as the message that goes back to the model. */
export const toolResult = (content: Content, of: { name?: string; toolCallId?: string } = {}): Message => ({
  role: 'tool',
  content,
  ...of,
})
export const text = (value: string): TextPart => ({ type: 'text', text: value })
export const thinking = (value: string): ThinkingPart => ({ type: 'thinking', thinking: value })
export const toolCall = (name: string, args: string | object, id?: string): ToolCallPart => ({
  type: 'tool_call',
  name,
  arguments: typeof args === 'string' ? args : JSON.stringify(args),
  ...(id === undefined ? {} : { id }),
})

/** The parts of a message in canonical form: neighbours of one kind joined, empty text and empty thinking dropped. */
export function partsOf(message: Pick<Message, 'content'>): ContentPart[] {
  if (typeof message.content === 'string') return message.content === '' ? [] : [text(message.content)]
  const parts: ContentPart[] = []
  for (const part of message.content) {
    const last = parts.at(-1)
    if (part.type === 'text' && part.text === '') continue
    if (part.type === 'thinking' && part.thinking === '') continue
    if (part.type === 'text' && last?.type === 'text') parts[parts.length - 1] = text(last.text + part.text)
    else if (part.type === 'thinking' && last?.type === 'thinking')
      parts[parts.length - 1] = thinking(last.thinking + part.thinking)
    else parts.push(part)
  }
  return parts
}

/** Content in canonical form: a plain string when there is nothing but text. */
export function contentOf(parts: readonly ContentPart[]): Content {
  const canonical = partsOf({ content: [...parts] })
  if (canonical.length === 0) return ''
  const only = canonical[0]!
  return canonical.length === 1 && only.type === 'text' ? only.text : canonical
}

/** All text of a message, joined; thinking and tool calls are left out. */
export const textOf = (message: Pick<Message, 'content'>): string =>
  partsOf(message).reduce((joined, part) => (part.type === 'text' ? joined + part.text : joined), '')

/** All reasoning of a message, joined. */
export const thinkingOf = (message: Pick<Message, 'content'>): string =>
  partsOf(message).reduce((joined, part) => (part.type === 'thinking' ? joined + part.thinking : joined), '')

/** The tool calls of a message that were understood, in order. */
export const toolCallsOf = (message: Pick<Message, 'content'>): ToolCallPart[] =>
  partsOf(message).filter((part) => part.type === 'tool_call')

/** The tool calls of a message that were not understood, in order. */
export const unparsedToolCallsOf = (message: Pick<Message, 'content'>): UnparsedToolCallPart[] =>
  partsOf(message).filter((part) => part.type === 'unparsed_tool_call')

/** Whether two messages say the same: role, canonical content, name and call id. `trainable` does not count. */
export function sameMessage(a: Message, b: Message): boolean {
  if (a === b) return true
  if (a.role !== b.role || a.name !== b.name || a.toolCallId !== b.toolCallId) return false
  const [x, y] = [contentOf(partsOf(a)), contentOf(partsOf(b))]
  if (typeof x === 'string' || typeof y === 'string') return x === y
  return x.length === y.length && x.every((part, k) => samePart(part, y[k]!))
}

function samePart(a: ContentPart, b: ContentPart): boolean {
  if (a.type === 'text') return b.type === 'text' && a.text === b.text
  if (a.type === 'thinking') return b.type === 'thinking' && a.thinking === b.thinking
  if (a.type === 'unparsed_tool_call') return b.type === 'unparsed_tool_call' && a.rawText === b.rawText
  return b.type === 'tool_call' && a.name === b.name && a.arguments === b.arguments && a.id === b.id
}

/**
 * Checks a conversation and returns it unchanged.
 *
 * @throws InvalidMessagesError naming the message, the field and what was expected there
 */
export function checkMessages(messages: readonly Message[]): readonly Message[] {
  const list: unknown = messages
  if (!Array.isArray(list))
    throw new InvalidMessagesError(`messages: expected a list of {role, content}, got ${typeof list}`)
  list.forEach((message: unknown, index) => {
    const checked = messageSchema.safeParse(message)
    if (checked.success) return
    const issue = checked.error.issues[0]!
    const place = ['messages', index, ...issue.path].join('.')
    throw new InvalidMessagesError(`${place}: ${issue.message}`, { index, path: issue.path })
  })
  return messages
}

/** Checks tool declarations and returns them unchanged. @throws InvalidMessagesError */
export function checkTools(tools: readonly ToolSpec[]): readonly ToolSpec[] {
  const checked = z.array(toolSpecSchema).safeParse(tools)
  if (checked.success) return tools
  const issue = checked.error.issues[0]!
  throw new InvalidMessagesError(`${['tools', ...issue.path].join('.')}: ${issue.message}`, { path: issue.path })
}
