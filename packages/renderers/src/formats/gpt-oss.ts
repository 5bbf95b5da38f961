import { z } from 'zod'
import { UnsupportedConversationError } from '../errors.js'
import { defineChatFormat, type ChatFormat, type TurnContext } from '../format.js'
import { channelBody } from '../grammar/channel.js'
import { markup } from '../markup.js'
import { toolCallsOf, unparsedToolCallsOf, type Message } from '../messages.js'
import { toolNamespace } from './typescript-tools.js'

const gptOssOptions = z.strictObject({
  /** The date that the system message tells the model: `2026-01-31`. */
  date: z.string().regex(/^\d{4}-\d{2}-\d{2}$/, 'expected the date to tell the model, for example "2026-01-31"'),
})
type GptOssOptions = z.output<typeof gptOssOptions>

const calls = (message: Message) => [...toolCallsOf(message), ...unparsedToolCallsOf(message)]

/** The tool that a result comes from: its own name, or that of the last call before it. */
function toolName({ message, messages, index }: TurnContext<GptOssOptions>): string {
  const called = messages.slice(0, index).flatMap(toolCallsOf).at(-1)
  const name = message.name ?? called?.name
  if (name === undefined)
    throw new UnsupportedConversationError(
      `gpt_oss: message ${index} is a tool result without a name, and no call stands before it; give it a name`,
      { index },
    )
  return name
}

/** OpenAI's Harmony format at one reasoning effort. The caller's system message is what Harmony calls the developer's. */
const gptOss = (effort: 'low' | 'medium' | 'high'): ChatFormat<GptOssOptions> =>
  defineChatFormat<GptOssOptions>({
    name: `gpt_oss_${effort}`,
    markers: ['<|start|>', '<|channel|>', '<|message|>', '<|end|>', '<|return|>', '<|call|>'],
    softMarkers: ['<|constrain|>'],
    stop: ['<|return|>', '<|call|>'],
    options: gptOssOptions,
    begin: ({
      tools,
      options,
    }) => markup`<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.
Knowledge cutoff: 2024-06
Current date: ${options.date}

Reasoning: ${effort}

# Valid channels: analysis, commentary, final. Channel must be included for every message.${
      tools.length > 0 ? markup`\nCalls to these tools must go to the commentary channel: 'functions'.` : markup``
    }<|end|>`,
    defaultSystem: ({ tools }) => (tools.length > 0 ? '' : undefined),
    check({ messages }) {
      const later = messages.findIndex(({ role }, index) => role === 'system' && index > 0)
      if (later >= 0)
        throw new UnsupportedConversationError('gpt_oss: only the first message can be a system message', {
          index: later,
        })
    },
    turn(turn) {
      const { role, text, tools, message, produced } = turn
      const end = markup`<|end|>`
      switch (role) {
        case 'system': {
          if (text === '' && tools.length === 0) return { header: markup``, end: markup`` }
          const instructions = text === '' ? markup`` : markup`# Instructions\n\n${text}\n\n`
          const declared = tools.length === 0 ? markup`` : markup`# Tools\n\n${toolNamespace('functions', tools)}`
          return { header: markup`<|start|>developer<|message|>`, body: markup`${instructions}${declared}`, end }
        }
        case 'user':
          return { header: markup`<|start|>user<|message|>`, end }
        case 'tool':
          return {
            header: markup`<|start|>functions.${toolName(turn)} to=assistant<|channel|>commentary<|message|>`,
            body: markup`${JSON.stringify(text)}`,
            end,
          }
        case 'assistant': {
          const called = calls(message).length > 0
          return {
            header: markup`<|start|>assistant`,
            end: called ? markup`<|call|>` : produced ? markup`<|return|>` : end,
            thinking: produced || (called && !hasFinalAfter(turn)) ? 'keep' : 'drop',
          }
        }
      }
    },
    body: channelBody({
      start: '<|start|>',
      author: 'assistant',
      channel: '<|channel|>',
      message: '<|message|>',
      end: '<|end|>',
      thinkingChannel: 'analysis',
      callChannel: 'commentary',
      answerChannel: 'final',
      toolPrefix: 'functions.',
      constraint: 'json',
    }),
  })

/** Whether an answer without a call follows in the history: the reasoning before a call is dropped from then on. */
const hasFinalAfter = ({ messages, index }: TurnContext<GptOssOptions>): boolean =>
  messages.slice(index + 1, -1).some((later) => later.role === 'assistant' && calls(later).length === 0)

export const gptOssLow = gptOss('low')
export const gptOssMedium = gptOss('medium')
export const gptOssHigh = gptOss('high')
