import { expect, it } from 'vitest'
import { checkStreaming } from './testing/checks.js'
import { randomText, seededRandom } from './testing/random.js'
import { assistant, user } from './messages.js'
import { getRenderer } from './registry.js'
import { createTokenizer } from './tokenizer.js'

/** A vocabulary of the kind that Llama 2 has: blanks as U+2581, bytes for what is unknown, a first blank that is dropped. */
const bytes = Array.from({ length: 256 }, (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`)
const letters = ['\u2581', ...'ULsernabcthingd:12.<|>/{}"'.split('')]
const vocab = Object.fromEntries([...bytes, ...letters, '\u2581a', '</s>'].map((token, id) => [token, id]))
const tokenizer = createTokenizer(
  {
    model: { type: 'BPE', vocab, merges: ['\u2581 a'], byte_fallback: true, unk_token: '<0x00>' },
    added_tokens: [{ id: vocab['</s>'], content: '</s>', special: true }],
    normalizer: { type: 'Replace', pattern: { String: ' ' }, content: '\u2581' },
    pre_tokenizer: null,
    post_processor: null,
    decoder: {
      type: 'Sequence',
      decoders: [
        { type: 'Replace', pattern: { String: '\u2581' }, content: ' ' },
        { type: 'ByteFallback' },
        { type: 'Fuse' },
        { type: 'Strip', content: ' ', start: 1, stop: 0 },
      ],
    },
  },
  { eos_token: '</s>' },
)

it('streams vocabularies whose decoder treats the first token in its own way', () => {
  const renderer = getRenderer('role_colon', tokenizer)
  const random = seededRandom(5)
  let streamed = 0
  for (let run = 0; run < 40; run++) {
    const said = `a${randomText(random).replaceAll(/User|System/g, '')}`
    const messages = [user('hi'), assistant(said)]
    const prompt = renderer.generationPrompt(messages.slice(0, 1))
    const target = renderer.supervisedExample(messages).tokens.slice(prompt.length)
    expect(() => checkStreaming(renderer, [...target])).not.toThrow()
    streamed += target.length
  }
  expect(streamed).toBeGreaterThan(400)
})

it('holds back a character until it is whole, and no longer', () => {
  const renderer = getRenderer('role_colon', tokenizer)
  const stream = renderer.parseStream()
  const deltas = [...tokenizer.encode(' a漢b')].map((id) =>
    stream
      .push([id])
      .map((event) => ('delta' in event ? event.delta : ''))
      .join(''),
  )
  expect(deltas.join('|')).toBe('a|||漢|b')
  expect(stream.finish()).toMatchObject({ termination: 'malformed', message: { content: 'a漢b' } })
})
