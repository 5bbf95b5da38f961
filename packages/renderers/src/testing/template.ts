import { textOf, thinkingOf, toolCallsOf, type Message } from '../messages.js'
import type { TestConversation } from './conversations.js'

/** What a published template gives for a conversation. */
export interface TemplateIds {
  /** The generation prompt of the conversation, less an assistant message at its end. */
  readonly prompt: ArrayLike<number>
  /** The whole conversation without a generation prompt. Left out where the template has no say in it. */
  readonly full?: ArrayLike<number>
}

export interface PublishedTemplateOptions {
  /** Renders the template, for example `(context) => new Template(source).render(context)` of `@huggingface/jinja`. */
  readonly render: (context: Record<string, unknown>) => string
  /** Text to ids with control tokens *recognised* and none added: what a model's own tokenizer makes of a template. */
  readonly encode: (text: string) => ArrayLike<number>
  /** Further variables that the template reads: `bos_token`, `enable_thinking`, dates. */
  readonly variables?: Readonly<Record<string, unknown>>
  /** The key under which the template reads reasoning. Default `reasoning_content`. */
  readonly thinkingKey?: string
  /** Whether the template reads the arguments of calls as objects and not as JSON text. Default false. */
  readonly argumentsAsObjects?: boolean
}

/** Makes the `template` of `describeRenderer` from a published chat template. It is `undefined` where the template throws. */
export function publishedTemplate(
  options: PublishedTemplateOptions,
): (of: TestConversation) => TemplateIds | undefined {
  const { render, encode, variables = {} } = options
  return ({ messages, tools }) => {
    const written = messages.map((message) => hubMessage(message, options))
    const asked = messages.at(-1)!.role === 'assistant' ? written.slice(0, -1) : written
    const context = {
      ...variables,
      ...(tools ? { tools: tools.map((tool) => ({ type: 'function', function: tool })) } : {}),
    }
    try {
      return {
        prompt: encode(render({ ...context, messages: asked, add_generation_prompt: true })),
        full: encode(render({ ...context, messages: written, add_generation_prompt: false })),
      }
    } catch {
      return undefined
    }
  }
}

/** A message with the field names that templates on the hub read. */
function hubMessage(message: Message, options: PublishedTemplateOptions): Record<string, unknown> {
  const { thinkingKey = 'reasoning_content', argumentsAsObjects = false } = options
  const calls = toolCallsOf(message).map(({ id, name, arguments: json }) => ({
    type: 'function',
    ...(id === undefined ? {} : { id }),
    function: { name, arguments: argumentsAsObjects ? (JSON.parse(json) as unknown) : json },
  }))
  return {
    role: message.role,
    content: textOf(message),
    ...(thinkingOf(message) === '' ? {} : { [thinkingKey]: thinkingOf(message) }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
    ...(message.name === undefined ? {} : { name: message.name }),
    ...(message.toolCallId === undefined ? {} : { tool_call_id: message.toolCallId }),
  }
}
