import { describe, expect, it } from 'vitest'
import { createRenderer } from '../create-renderer.js'
import { DelimiterInTextError, UnsupportedConversationError } from '../errors.js'
import type { ChatFormat } from '../format.js'
import { assistant, user, type Message } from '../messages.js'
import type { Renderer } from '../renderer.js'
import type { Tokenizer } from '../tokenizer.js'
import {
  checkBridge,
  checkEnds,
  checkExample,
  checkInjection,
  checkRoundTrip,
  checkStreaming,
  withTexts,
} from './checks.js'
import { conversations, type TestConversation } from './conversations.js'
import type { TemplateIds } from './template.js'
import { randomConversation, randomText, seededRandom } from './random.js'

export { byteTokenizer, type ByteTokenizerOptions } from '../byte-tokenizer.js'
export * from './checks.js'
export { publishedTemplate, type PublishedTemplateOptions, type TemplateIds } from './template.js'
export { conversations, testTools, type TestConversation } from './conversations.js'
export { randomAnswer, randomConversation, randomText, seededRandom } from './random.js'

export interface DescribeOptions {
  readonly tokenizer: Tokenizer
  /** The options of the format. */
  readonly options?: unknown
  /**
   * The published template: its ids for a conversation, or `undefined` where it cannot write it; `publishedTemplate`
   * makes this from a template file. Without it the kit proves the renderer consistent, but not equal to what the model
   * was trained with.
   */
  readonly template?: (conversation: TestConversation) => TemplateIds | undefined
  /** Conversations to compare over. Default: the kit's own. */
  readonly conversations?: readonly TestConversation[]
  /** Seeds the random conversations. Default 1. */
  readonly seed?: number
  /** How many random conversations each property is tried on. Default 50. */
  readonly runs?: number
}

/** What the properties are tried on. */
interface Kit {
  readonly renderer: Renderer
  /** The conversations that the format can write. */
  readonly cases: readonly TestConversation[]
  /** Those of them in which the assistant has the last word. */
  readonly answered: readonly TestConversation[]
  readonly markers: readonly string[]
  readonly seed: number
  readonly runs: number
}

/** Tries a check on random conversations that the format can write. */
function overRandom({ renderer, seed, runs }: Kit, check: (messages: Message[]) => void): void {
  const random = seededRandom(seed)
  const all = Array.from({ length: runs }, () => randomConversation(random))
  const written = all.filter((messages) => canWrite(renderer, { name: '', messages }))
  if (written.length <= runs / 10)
    throw new Error(`only ${written.length} of ${runs} random conversations could be written`)
  for (const messages of written) check(messages)
}

/** What holds for every chat format. */
const properties: Readonly<Record<string, (kit: Kit) => void>> = {
  'starts every example with its prompt and trains exactly the rest': (kit) => {
    for (const { messages, tools } of kit.answered) checkExample(kit.renderer, messages, tools)
    overRandom(kit, (messages) => void checkExample(kit.renderer, messages))
  },
  'reads back what it writes': (kit) => {
    for (const { messages, tools } of kit.answered) checkRoundTrip(kit.renderer, messages, tools)
    overRandom(kit, (messages) => checkRoundTrip(kit.renderer, messages))
  },
  'reads a stream as it reads the whole, cut anywhere': ({ renderer, answered }) => {
    for (const { messages, tools } of answered) {
      const { prompt, target } = checkExample(renderer, messages, tools)
      checkStreaming(renderer, [...target], prompt)
    }
  },
  'reads random tokens without throwing, streamed or not': ({ renderer, seed, runs }) => {
    const random = seededRandom(seed)
    const ids = [...renderer.markerIds, ...renderer.tokenizer.encode(randomText(random) + ' x</y>\n')]
    const draw = () => ids[Math.floor(random() * ids.length)]!
    for (let run = 0; run < runs; run++) checkStreaming(renderer, Array.from({ length: 12 }, draw))
  },
  'lets no text become a control token': ({ renderer, cases, markers, seed }) => {
    for (const conversation of cases) tryInjection(renderer, conversation, markers, seededRandom(seed))
  },
  'reads broken ends as malformed and an empty answer as one': ({ renderer, answered }) => {
    for (const { messages, tools } of answered) if (!tools) checkEnds(renderer, messages)
  },
  'bridges from sampled ids': ({ renderer, answered }) => {
    for (const { messages, tools } of answered) if (!tools) checkBridge(renderer, messages, [user('And now?')])
  },
}

/**
 * The suite that proves a chat format right: call it at the top level of a vitest file.
 *
 * ```ts
 * describeRenderer(smol, { tokenizer, template })
 * ```
 */
export function describeRenderer<O>(format: ChatFormat<O>, options: DescribeOptions): void {
  const renderer = createRenderer(format, options.tokenizer, options.options)
  const cases = (options.conversations ?? conversations).filter((conversation) => canWrite(renderer, conversation))
  const answered = cases.filter(({ messages }) => messages.at(-1)!.role === 'assistant')
  const { seed = 1, runs = 50, template } = options
  const kit: Kit = {
    renderer,
    cases,
    answered,
    markers: [...format.markers, ...(format.softMarkers ?? [])],
    seed,
    runs,
  }
  describe(`chat format ${format.name}`, () => {
    it('writes plain questions and answers', () => {
      const plain: TestConversation = { name: '', messages: [user('Hi'), assistant('Hello'), user('Well?')] }
      expect([canWrite(renderer, plain), answered.length > 0]).toEqual([true, true])
    })
    it.each(Object.entries(properties))('%s', (_name, property) => {
      expect(() => property(kit)).not.toThrow()
    })
    if (template) describeTemplate(renderer, cases, template)
  })
}

function describeTemplate(
  renderer: Renderer,
  cases: readonly TestConversation[],
  template: NonNullable<DescribeOptions['template']>,
): void {
  it.each(cases.map((conversation) => [conversation.name, conversation] as const))(
    'equals the published template: %s',
    (_name, conversation) => {
      const expected = template(conversation)
      if (!expected) return
      const { messages, tools = [] } = conversation
      const isAnswered = messages.at(-1)!.role === 'assistant'
      const prompt = renderer.generationPrompt(isAnswered ? messages.slice(0, -1) : messages, { tools })
      expect([...prompt]).toEqual(Array.from(expected.prompt))
      if (!expected.full) return
      const trainOn = isAnswered ? 'last_assistant_message' : 'all_messages'
      const { tokens } = renderer.supervisedExample(messages, { tools, trainOn })
      const full = Array.from(expected.full)
      expect([...tokens]).toEqual(full.slice(0, tokens.length))
      // A template goes on after the stop with what separates turns; a sampler does not.
      expect(renderer.tokenizer.decode(full.slice(tokens.length)).trim()).toBe('')
    },
  )
}

/** Replaces the texts of a conversation by marker spellings; formats without control tokens may refuse them. */
function tryInjection(
  renderer: Renderer,
  { messages, tools = [] }: TestConversation,
  markers: readonly string[],
  random: () => number,
): void {
  const { tokenizer } = renderer
  const spelled = [...(tokenizer.controlIds ?? [])].slice(0, 200).map((id) => tokenizer.decode([id]))
  const hostile = () => randomText(random, [...markers, ...markers, ...spelled]) + (markers[0] ?? '')
  const hostileTools = tools.map((tool) => ({ ...tool, name: `x${markers[0] ?? ''}`, description: hostile() }))
  try {
    checkInjection(renderer, withTexts(messages, hostile), hostileTools)
  } catch (error) {
    if (!(error instanceof DelimiterInTextError)) throw error
  }
}

/** Whether a format has a way to write a conversation. */
export function canWrite(renderer: Renderer, { messages, tools = [] }: TestConversation): boolean {
  try {
    if (messages.at(-1)!.role === 'assistant') {
      renderer.generationPrompt(messages.slice(0, -1), { tools })
      renderer.supervisedExample(messages, { tools })
    } else renderer.generationPrompt(messages, { tools })
    return true
  } catch (error) {
    if (error instanceof UnsupportedConversationError || error instanceof DelimiterInTextError) return false
    throw error
  }
}
