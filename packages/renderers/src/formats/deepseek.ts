import { UnsupportedConversationError } from '../errors.js'
import { defineChatFormat, type ConversationContext, type Turn, type TurnContext } from '../format.js'
import { inlineBody, type InlineGrammar } from '../grammar/inline.js'
import { templatePayload } from '../grammar/payload.js'
import { pythonJson } from '../grammar/json.js'
import { data, markup, type Markup } from '../markup.js'
import type { ToolSpec } from '../messages.js'

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
  defaultSystem: ({ tools }: ConversationContext<unknown>) => (tools.length > 0 ? '' : undefined),
  check({ messages }: ConversationContext<unknown>) {
    const first = messages.findIndex(({ role }) => role !== 'system')
    if (messages.slice(first).some(({ role }) => role === 'system'))
      throw new UnsupportedConversationError('deepseekv3: system messages can only stand at the start')
  },
}

/**
 * Tools as a section of the system text. The published template leaves declarations to the caller; this says what V3's
 * tool calls look like.
 */
function declaredTools(tools: readonly ToolSpec[]): Markup {
  const list = tools.map(
    ({ name, description, parameters }) =>
      `\n### ${name}\nDescription: ${description}\n\nParameters: ${pythonJson(parameters)}\n`,
  )
  return markup`## Tools\nYou have access to the following tools:\n${data(list.join(''))}
To call tools, answer with
<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>tool name\n\`\`\`json\narguments as a JSON object\n\`\`\`<｜tool▁call▁end｜><｜tool▁calls▁end｜>`
}

/** System text stands bare at the start; an answer to tool results has no header of its own. */
function deepseekTurn({ role, text, index, tools, previous, next }: TurnContext<unknown>): Turn {
  switch (role) {
    case 'system': {
      const declared = index === 0 && tools.length > 0 ? declaredTools(tools) : markup``
      const gap = text !== '' && declared.pieces.length > 0 ? markup`\n\n` : markup``
      return { header: previous ? markup`\n\n` : markup``, body: markup`${text}${gap}${declared}`, end: markup`` }
    }
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
