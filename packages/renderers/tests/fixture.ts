import { readFileSync } from 'node:fs'
import { UnsupportedConversationError, type Renderer, type Tokenizer } from '../src/index.js'
import type { TestConversation } from '../src/testing/conversations.js'

/**
 * What the published template gives for a conversation: the generation prompt of what comes before a last assistant
 * message, and the whole without a generation prompt.
 */
export interface OracleIds {
  readonly prompt: readonly number[]
  readonly full: readonly number[]
}

/** A committed file of ids. `recorded` is there for vocabularies that the tests do not have. */
export interface Fixture {
  readonly formatVersion: 1
  readonly vocabulary: string
  /** By format and name of the conversation; null where the template refuses it. */
  readonly formats: Record<string, Record<string, OracleIds | null>>
  readonly recorded?: RecordedVocabulary
}

export interface RecordedVocabulary {
  readonly control: Record<string, number>
  readonly eosTokenId?: number
  readonly bosTokenId?: number
  readonly vocabSize: number
  readonly texts: Record<string, number[]>
  /** Hexadecimal bytes of each id. */
  readonly bytes: Record<string, string>
}

export function readFixture(vocabulary: string): Fixture {
  const path = new URL(`../fixtures/${vocabulary}.json`, import.meta.url)
  const fixture = JSON.parse(readFileSync(path, 'utf8')) as Fixture
  if (fixture.formatVersion !== 1)
    throw new Error(`${path.href}: formatVersion ${String(fixture.formatVersion)} is not known`)
  return fixture
}

/** A tokenizer that knows the recorded texts and no others. */
export function recordedTokenizer(recorded: RecordedVocabulary): Tokenizer {
  const spelling = new Map(Object.entries(recorded.control).map(([token, id]) => [id, token]))
  const { eosTokenId, bosTokenId, vocabSize } = recorded
  return {
    encode(text) {
      const ids = recorded.texts[text]
      if (ids) return ids
      if (spelling.size > 0 && Object.hasOwn(recorded.control, text)) return []
      throw new Error(`the fixture holds no ids of ${JSON.stringify(text)}; make the fixtures anew`)
    },
    decode(ids) {
      let text = ''
      let bytes: number[] = []
      const flush = () => {
        text += new TextDecoder('utf-8', { ignoreBOM: true }).decode(Uint8Array.from(bytes))
        bytes = []
      }
      for (const id of ids) {
        const token = spelling.get(id)
        if (token === undefined) bytes.push(...Buffer.from(recorded.bytes[id] ?? '', 'hex'))
        else {
          flush()
          text += token
        }
      }
      flush()
      return text
    },
    tokenId: (token) => recorded.control[token],
    vocabSize,
    controlIds: new Set(spelling.keys()),
    ...(eosTokenId === undefined ? {} : { eosTokenId }),
    ...(bosTokenId === undefined ? {} : { bosTokenId }),
  }
}

/** The options with which formats are compared. */
export function fixtureOptions(format: string): unknown {
  if (format === 'llama3_1') return { date: '29 Nov 2026' }
  return format.startsWith('gpt_oss') ? { date: '2026-11-29' } : {}
}

/** What a renderer makes of a conversation: what the template's two renders are compared with. */
export interface Rendering {
  readonly prompt: Int32Array
  readonly full: Int32Array
  /** What a sampler would emit, when the assistant has the last word. */
  readonly target?: Int32Array
}

/** Renders a conversation; `undefined` when the format cannot write it. */
export function render(renderer: Renderer, { messages, tools = [] }: TestConversation): Rendering | undefined {
  const answered = messages.at(-1)!.role === 'assistant'
  try {
    const prompt = renderer.generationPrompt(answered ? messages.slice(0, -1) : messages, { tools })
    const { tokens, weights } = renderer.supervisedExample(messages, {
      tools,
      trainOn: answered ? 'last_assistant_message' : 'all_messages',
    })
    return { prompt, full: tokens, ...(answered ? { target: tokens.filter((_, k) => weights[k] === 1) } : {}) }
  } catch (error) {
    if (error instanceof UnsupportedConversationError) return undefined
    throw error
  }
}

/** Every operation that the fixture tests perform, so that a recording tokenizer sees their texts. */
export function exercise(renderer: Renderer, over: readonly TestConversation[]): void {
  for (const conversation of over) {
    const rendering = render(renderer, conversation)
    if (!rendering?.target) continue
    renderer.parse(rendering.target, { prompt: rendering.prompt })
    const { messages, tools = [] } = conversation
    renderer.supervisedExamples(messages, { tools, trainOn: 'all_assistant_messages' })
  }
}
