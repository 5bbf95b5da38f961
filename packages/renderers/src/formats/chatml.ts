import { z } from 'zod'
import { defineChatFormat, type Turn, type TurnContext } from '../format.js'
import type { Frame } from '../grammar/frame.js'
import { inlineBody, type InlineGrammar } from '../grammar/inline.js'
import { pythonJson } from '../grammar/json.js'
import { jsonPayload } from '../grammar/payload.js'
import { data, markup, type Markup } from '../markup.js'
import type { ToolSpec } from '../messages.js'

const TOOL_MARKERS = ['<tool_call>', '</tool_call>', '<tool_response>', '</tool_response>']
const MARKERS = ['<|im_start|>', '<|im_end|>']

/** The JSON that templates print of a tool: the function inside OpenAI's envelope. */
export const toolJson = (tool: ToolSpec, indent = 0): string =>
  pythonJson(
    { type: 'function', function: { name: tool.name, description: tool.description, parameters: tool.parameters } },
    indent,
  )

/** How Qwen models are told of their tools, within the system message. */
const toolInstructions = (tools: readonly ToolSpec[]): Markup =>
  markup`# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>${data(tools.map((tool) => `\n${toolJson(tool)}`).join(''))}
</tools>

For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call>`

const toolCalls: InlineGrammar['toolCalls'] = {
  open: markup`<tool_call>\n`,
  close: markup`\n</tool_call>`,
  separator: '\n',
  payload: jsonPayload(),
}

/** The turns that all Qwen formats share: tool results of one step stand together in a user turn. */
function chatmlTurn(turn: TurnContext<unknown>, systemBeforeTools: Markup): Turn {
  const { role, text, index, tools } = turn
  const end = markup`<|im_end|>\n`
  if (role === 'tool')
    return {
      header: turn.previous?.role === 'tool' ? markup`` : markup`<|im_start|>user`,
      body: markup`\n<tool_response>\n${text}\n</tool_response>`,
      end: turn.next?.role === 'tool' ? markup`` : end,
    }
  const header = markup`<|im_start|>${role}\n`
  if (role === 'system' && index === 0 && tools.length > 0)
    return { header, body: markup`${systemBeforeTools}${toolInstructions(tools)}`, end }
  return { header, end }
}

const chatmlOptions = z.strictObject({
  /** The system message of conversations without one; null for none. Default: Qwen2.5's own. */
  defaultSystem: z.string().nullable().default('You are Qwen, created by Alibaba Cloud. You are a helpful assistant.'),
})

/** ChatML as Qwen2.5 uses it. */
export const chatml = defineChatFormat<z.output<typeof chatmlOptions>>({
  name: 'chatml',
  markers: MARKERS,
  softMarkers: TOOL_MARKERS,
  stop: ['<|im_end|>'],
  eos: ['<|endoftext|>'],
  options: chatmlOptions,
  defaultSystem: ({ options, tools }) => options.defaultSystem ?? (tools.length > 0 ? '' : undefined),
  turn: (turn) => chatmlTurn(turn, turn.synthetic && turn.text === '' ? markup`` : markup`${turn.text}\n\n`),
  body: inlineBody({ toolCalls }),
})

const think: Frame = { open: markup`<think>\n`, close: markup`\n</think>\n\n` }

/** The parts that Qwen3's formats have in common. */
const qwen3Base = {
  markers: MARKERS,
  softMarkers: [...TOOL_MARKERS, '<think>', '</think>'],
  stop: ['<|im_end|>'],
  eos: ['<|endoftext|>'],
  defaultSystem: ({ tools }: { tools: readonly ToolSpec[] }) => (tools.length > 0 ? '' : undefined),
}

const qwen3Turn = (turn: TurnContext<unknown>): Turn =>
  chatmlTurn(turn, turn.synthetic ? markup`` : markup`${turn.text}\n\n`)

/** Reasoning stays in the turns after the last user message, and the produced turn always has a block for it. */
const qwen3Thinking = ({ index, lastUserIndex, produced }: TurnContext<unknown>) =>
  lastUserIndex < 0 || index < lastUserIndex ? 'drop' : produced ? 'frame' : 'keep'

/** Qwen3, reasoning. */
export const qwen3 = defineChatFormat({
  ...qwen3Base,
  name: 'qwen3',
  turn: (turn) => ({ ...qwen3Turn(turn), thinking: qwen3Thinking(turn) }),
  body: inlineBody({ thinking: think, toolCalls }),
})

/** Qwen3 with reasoning switched off: the prompt closes an empty block. */
export const qwen3DisableThinking = defineChatFormat({
  ...qwen3Base,
  name: 'qwen3_disable_thinking',
  turn: (turn) => ({
    ...qwen3Turn(turn),
    ...(turn.produced
      ? { thinking: 'frame' as const, prefill: markup`<think>\n\n</think>\n\n` }
      : { thinking: qwen3Thinking(turn) }),
  }),
  body: inlineBody({ thinking: think, toolCalls }),
})

/** Qwen3 Instruct 2507, which never reasons. */
export const qwen3Instruct = defineChatFormat({
  ...qwen3Base,
  name: 'qwen3_instruct',
  turn: qwen3Turn,
  body: inlineBody({ toolCalls }),
})
