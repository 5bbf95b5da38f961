import { z } from 'zod'
import { UnsupportedConversationError } from '../errors.js'
import { defineChatFormat } from '../format.js'
import { inlineBody } from '../grammar/inline.js'
import { jsonPayload } from '../grammar/payload.js'
import { stripPython } from '../grammar/strip.js'
import { data, markup } from '../markup.js'
import { toolJson } from './chatml.js'

const MARKERS = ['<|begin_of_text|>', '<|start_header_id|>', '<|end_header_id|>', '<|eot_id|>']

/** Llama 3: text only. Message text is trimmed. */
export const llama3 = defineChatFormat({
  name: 'llama3',
  markers: MARKERS,
  bos: '<|begin_of_text|>',
  stop: ['<|eot_id|>'],
  eos: ['<|end_of_text|>'],
  turn: ({ role, text }) => ({
    header: markup`<|start_header_id|>${role}<|end_header_id|>\n\n`,
    body: data(stripPython(text)),
    end: markup`<|eot_id|>`,
  }),
  body: inlineBody({ trim: true }),
})

const llama31Options = z.strictObject({
  /** The date that the system message tells the model, as the model was trained on: `26 Jul 2024`. */
  date: z.string().min(1, 'expected the date to tell the model, for example "26 Jul 2024"'),
})

/** Llama 3.1, 3.2 and 3.3: a dated system message, and tools whose declarations stand in the first user message. */
export const llama31 = defineChatFormat<z.output<typeof llama31Options>>({
  name: 'llama3_1',
  markers: MARKERS,
  softMarkers: ['<|eom_id|>', '<|python_tag|>'],
  bos: '<|begin_of_text|>',
  stop: ['<|eot_id|>'],
  eos: ['<|end_of_text|>', '<|eom_id|>'],
  options: llama31Options,
  defaultSystem: () => '',
  check({ messages, tools }) {
    if (tools.length > 0 && messages[1]?.role !== 'user')
      throw new UnsupportedConversationError(
        'llama3_1: tools are declared in the first user message; expected a user message first, or right after the system message',
      )
  },
  turn({ role, text, index, tools, options }) {
    const end = markup`<|eot_id|>`
    const header = markup`<|start_header_id|>${role === 'tool' ? 'ipython' : role}<|end_header_id|>\n\n`
    if (role === 'tool') return { header, body: data(JSON.stringify(text)), end }
    if (index === 0) {
      const environment = tools.length > 0 ? markup`Environment: ipython\n` : markup``
      const dates = markup`Cutting Knowledge Date: December 2023\nToday Date: ${options.date}\n\n`
      return { header, body: markup`${environment}${dates}${stripPython(text)}`, end }
    }
    if (index === 1 && tools.length > 0) {
      const declared = data(tools.map((tool) => `${toolJson(tool, 4)}\n\n`).join(''))
      const body = markup`Given the following functions, please respond with a JSON for a function call with its proper arguments that best answers the given prompt.

Respond in the format {"name": function name, "parameters": dictionary of argument name and its value}.Do not use variables.

${declared}${stripPython(text)}`
      return { header, body, end }
    }
    return { header, body: data(stripPython(text)), end }
  },
  body: inlineBody({ trim: true, bareCall: jsonPayload('parameters') }),
})
