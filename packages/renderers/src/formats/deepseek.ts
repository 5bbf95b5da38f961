import { UnsupportedConversationError } from '../errors.js'
import { defineChatFormat, type ConversationContext, type Turn, type TurnContext } from '../format.js'
import { inlineBody, type InlineGrammar } from '../grammar/inline.js'
import { templatePayload } from '../grammar/payload.js'
import { markup } from '../markup.js'

const base = {
  markers: [
    '<｜begin▁of▁sentence｜>',
    '<｜end▁of▁sentence｜>',
    '<｜User｜>',
    '<｜Assistant｜>',
    '<｜tool▁calls▁begin｜>',
    '<｜tool▁calls▁end｜>',
    '<｜tool▁call▁begin｜>',
    '<｜tool▁call▁end｜>',
    '<｜tool▁outputs▁begin｜>',
    '<｜tool▁outputs▁end｜>',
    '<｜tool▁output▁begin｜>',
    '<｜tool▁output▁end｜>',
    '<｜tool▁sep｜>',
  ],
  softMarkers: ['<think>', '</think>'],
  bos: '<｜begin▁of▁sentence｜>',
  stop: ['<｜end▁of▁sentence｜>'],
  check({ messages, tools }: ConversationContext<unknown>) {
    const first = messages.findIndex(({ role }) => role !== 'system')
    if (messages.slice(first).some(({ role }) => role === 'system'))
      throw new UnsupportedConversationError('deepseekv3: system messages can only stand at the start')
    if (tools.length > 0)
      throw new UnsupportedConversationError(
        'deepseekv3: this format declares no tools itself; describe them in the system message and leave tools out',
      )
  },
}

/** System text stands bare at the start; an answer to tool results has no header of its own. */
function deepseekTurn({ role, text, previous, next }: TurnContext<unknown>): Turn {
  switch (role) {
    case 'system':
      return { header: previous ? markup`\n\n` : markup``, end: markup`` }
    case 'user':
      return { header: markup`<｜User｜>`, end: markup`` }
    case 'assistant':
      return {
        header: previous?.role === 'tool' ? markup`` : markup`<｜Assistant｜>`,
        end: markup`<｜end▁of▁sentence｜>`,
      }
    case 'tool':
      return {
        header: previous?.role === 'tool' ? markup`\n` : markup`<｜tool▁outputs▁begin｜>`,
        body: markup`<｜tool▁output▁begin｜>${text}<｜tool▁output▁end｜>`,
        end: next?.role === 'tool' ? markup`` : markup`<｜tool▁outputs▁end｜>`,
      }
  }
}

const toolCalls: InlineGrammar['toolCalls'] = {
  section: { open: markup`<｜tool▁calls▁begin｜>`, close: markup`<｜tool▁calls▁end｜>` },
  open: markup`<｜tool▁call▁begin｜>`,
  close: markup`<｜tool▁call▁end｜>`,
  separator: '\n',
  payload: templatePayload((call) => markup`function<｜tool▁sep｜>${call.name}\n\`\`\`json\n${call.arguments}\n\`\`\``),
}

/** DeepSeek V3, answering at once. */
export const deepseekv3 = defineChatFormat({
  ...base,
  name: 'deepseekv3',
  turn: deepseekTurn,
  body: inlineBody({ toolCalls }),
})

/** DeepSeek V3 and R1, reasoning: the prompt opens the block, except after tool results. History holds no reasoning. */
export const deepseekv3Thinking = defineChatFormat({
  ...base,
  name: 'deepseekv3_thinking',
  turn(turn) {
    if (turn.role !== 'assistant') return deepseekTurn(turn)
    if (!turn.produced) return { ...deepseekTurn(turn), thinking: 'drop' }
    if (turn.previous?.role === 'tool') return { ...deepseekTurn(turn), thinking: 'keep' }
    return { ...deepseekTurn(turn), thinking: 'frame', prefill: markup`<think>\n` }
  },
  body: inlineBody({ thinking: { open: markup`<think>\n`, close: markup`\n</think>\n\n` }, toolCalls }),
})
