import { Tokenizer as HuggingFaceTokenizer } from '@huggingface/tokenizers'
import { expect, it } from 'vitest'
import { assistant, getRenderer, system, text, thinking, user, type Message } from '../src/index.js'
import { seededRandom } from '../src/testing/index.js'
import { qwen3Files, qwen3Tokenizer } from './formats.js'

const WORDS =
  'the quick brown fox jumps over lazy dogs while reading 12 books about tokenizers, renderers and Łódź'.split(' ')

function conversation(random: () => number): Message[] {
  const paragraph = (length: number) =>
    Array.from(
      { length },
      () => WORDS[Math.floor(random() * WORDS.length)]! + (random() < 0.3 ? random().toString(36).slice(2, 6) : ''),
    ).join(' ')
  const turns = [1, 2, 3].flatMap(() => [user(paragraph(50)), assistant(paragraph(70))])
  return [
    system(paragraph(20)),
    ...turns,
    user(paragraph(50)),
    assistant([thinking(paragraph(50)), text(paragraph(60))]),
  ]
}

it('renders and parses at 0.8 times the speed of tokenisation alone, or faster', () => {
  const renderer = getRenderer('qwen3', qwen3Tokenizer())
  const { json, config } = qwen3Files()
  const tokenizer = new HuggingFaceTokenizer(json as object, config)
  const random = seededRandom(11)
  const cases = Array.from({ length: 12 }, () => {
    const messages = conversation(random)
    const asked = messages.slice(0, -1)
    const { tokens } = renderer.supervisedExample(messages)
    const response = tokens.slice(renderer.generationPrompt(asked).length)
    return { asked, response, whole: renderer.tokenizer.decode(tokens) }
  })
  const time = (work: () => void) => {
    const start = performance.now()
    work()
    return performance.now() - start
  }
  // The least of several times is the one with the least of other processes in it.
  let [alone, ours] = [Infinity, Infinity]
  for (let round = 0; round < 12; round++) {
    alone = Math.min(
      alone,
      time(() => cases.forEach(({ whole }) => tokenizer.encode(whole, { add_special_tokens: false }))),
    )
    ours = Math.min(
      ours,
      time(() =>
        cases.forEach(({ asked, response }) => {
          renderer.generationPrompt(asked)
          renderer.parse(response)
        }),
      ),
    )
    if (round >= 1 && alone / ours >= 0.8) break
  }
  expect(alone / ours).toBeGreaterThanOrEqual(0.8)
})
