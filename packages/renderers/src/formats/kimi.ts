import { defineChatFormat } from '../format.js'
import { inlineBody } from '../grammar/inline.js'
import { sortedKeys } from '../grammar/json.js'
import { templatePayload } from '../grammar/payload.js'
import { data, markup } from '../markup.js'
import { toolCallsOf } from '../messages.js'

const KIMI_ID = /^functions\.(\S+):\d+$/u

/**
 * Kimi K2. Reasoning stays in the turns after the last assistant message that called no tool; earlier ones keep an empty
 * block. Ids of calls are `functions.<name>:<position>`, and tool results name them.
 */
export const kimiK2 = defineChatFormat({
  name: 'kimi_k2',
  markers: ['<|im_system|>', '<|im_user|>', '<|im_assistant|>', '<|im_middle|>', '<|im_end|>'],
  softMarkers: [
    '<think>',
    '</think>',
    '<|tool_calls_section_begin|>',
    '<|tool_calls_section_end|>',
    '<|tool_call_section_begin|>',
    '<|tool_call_section_end|>',
    '<|tool_call_begin|>',
    '<|tool_call_argument_begin|>',
    '<|tool_call_end|>',
  ],
  stop: ['<|im_end|>'],
  eos: ['[EOS]'],
  defaultSystem: () => 'You are Kimi, an AI assistant created by Moonshot AI.',
  begin({ tools }) {
    if (tools.length === 0) return markup``
    const declared = tools.map(({ name, description, parameters }) => ({
      type: 'function',
      function: { name, description, parameters },
    }))
    return markup`<|im_system|>tool_declare<|im_middle|>${JSON.stringify(sortedKeys(declared))}<|im_end|>`
  },
  turn({ role, text, message, messages, index, produced, previous }) {
    const end = markup`<|im_end|>`
    switch (role) {
      case 'system':
        return { header: markup`<|im_system|>system<|im_middle|>`, end }
      case 'user':
        return { header: markup`<|im_user|>user<|im_middle|>`, end }
      case 'tool': {
        const id = message.toolCallId ?? (previous?.role === 'assistant' ? kimiId(toolCallsOf(previous)[0]) : undefined)
        const body = markup`## Return of ${id ?? message.name ?? ''}\n${text}`
        return { header: markup`<|im_system|>tool<|im_middle|>`, body, end }
      }
      case 'assistant': {
        const before = messages.slice(0, messages.length - 1)
        const lastPlain = before.findLastIndex((one) => one.role === 'assistant' && toolCallsOf(one).length === 0)
        const thinking = produced || index > lastPlain ? 'frame' : 'blank'
        return { header: markup`<|im_assistant|>assistant<|im_middle|>`, end, thinking }
      }
    }
  },
  body: inlineBody({
    thinking: { open: markup`<think>`, close: markup`</think>` },
    toolCalls: {
      section: {
        open: markup`<|tool_calls_section_begin|>`,
        close: markup`<|tool_calls_section_end|>`,
        accept: ['<|tool_call_section_begin|>', '<|tool_call_section_end|>'],
      },
      open: markup`<|tool_call_begin|>`,
      close: markup`<|tool_call_end|>`,
      payload: templatePayload((call) => markup`${call.name}<|tool_call_argument_begin|>${data(call.arguments)}`, {
        spell: kimiId,
        read(id) {
          const name = KIMI_ID.exec(id.trim())?.[1]
          return name === undefined ? undefined : { name, id: id.trim() }
        },
      }),
    },
  }),
})

/** The id of a call as Kimi writes it: its own if it is of that form, else made from its name and position. */
function kimiId(call: { id?: string | undefined; name: string } | undefined, position = 0): string {
  if (call === undefined) return ''
  return call.id !== undefined && KIMI_ID.exec(call.id)?.[1] === call.name
    ? call.id
    : `functions.${call.name}:${position}`
}
