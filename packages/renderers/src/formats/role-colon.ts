import { defineChatFormat } from '../format.js'
import { inlineBody } from '../grammar/inline.js'
import { data, markup } from '../markup.js'

const NAMES = { system: 'System', user: 'User', assistant: 'Assistant', tool: 'Tool' } as const
const delimiters = Object.values(NAMES).map((name) => `\n\n${name}:`)

/** Turns as plain text, for models without control tokens. Text that holds the start of a turn is refused. */
export const roleColon = defineChatFormat({
  name: 'role_colon',
  markers: [],
  bos: 'tokenizer',
  stop: ['\n\nUser:'],
  delimiters,
  cutBodies: true,
  turn: ({ role, text }) => ({ header: markup`${NAMES[role]}:`, body: data(` ${text}`), end: markup`\n\n` }),
  body: inlineBody({ lead: ' ', trail: '\n\n' }),
})
