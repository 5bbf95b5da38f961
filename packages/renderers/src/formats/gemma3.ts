import { UnsupportedConversationError } from '../errors.js'
import { defineChatFormat } from '../format.js'
import { inlineBody } from '../grammar/inline.js'
import { stripPython } from '../grammar/strip.js'
import { data, markup } from '../markup.js'

/** Gemma 3: the system message stands at the start of the first user turn; turns must alternate. Text is trimmed. */
export const gemma3 = defineChatFormat({
  name: 'gemma3',
  markers: ['<bos>', '<start_of_turn>', '<end_of_turn>'],
  bos: '<bos>',
  stop: ['<end_of_turn>'],
  eos: ['<eos>'],
  check({ messages }) {
    const turns = messages[0]?.role === 'system' ? messages.slice(1) : messages
    const wrong = turns.findIndex(({ role }, k) => role !== (k % 2 === 0 ? 'user' : 'assistant'))
    if (wrong >= 0 || turns.length === 0)
      throw new UnsupportedConversationError(
        'gemma3: expected user and assistant messages in turn, user first, after at most one system message',
      )
  },
  turn({ role, text, previous }) {
    if (role === 'system') return { header: markup`<start_of_turn>user\n`, body: markup`${text}\n\n`, end: markup`` }
    const speaker = role === 'assistant' ? 'model' : role
    const header = previous?.role === 'system' ? markup`` : markup`<start_of_turn>${speaker}\n`
    return { header, body: data(stripPython(text)), end: markup`<end_of_turn>\n` }
  },
  body: inlineBody({ trim: true }),
})
