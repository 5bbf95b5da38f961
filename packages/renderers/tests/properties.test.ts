import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  assistant,
  DelimiterInTextError,
  getRenderer,
  system,
  text,
  thinking,
  toolCall,
  toolResult,
  UnsupportedConversationError,
  user,
  type ContentPart,
  type Message,
  type Renderer,
} from '../src/index.js'
import { checkBridge, checkExample, checkInjection, checkRoundTrip, checkStreaming } from '../src/testing/checks.js'
import { allFormats, qwen3Tokenizer, standInRenderer } from './formats.js'

const SEED = 20261129

/** Text of any characters, with the spellings of markers and line breaks thrown in. */
const textWith = (markers: readonly string[]) =>
  fc
    .array(
      fc.oneof(
        { weight: 3, arbitrary: fc.string({ unit: 'grapheme', maxLength: 8 }) },
        { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 4 }) },
        { weight: 2, arbitrary: fc.constantFrom('\n', '\n\n', ' ', '12', 'User:', '{"name": "', ...markers) },
      ),
      { maxLength: 8 },
    )
    .map((pieces) => pieces.join(''))

const answerWith = (markers: readonly string[]) =>
  fc
    .record({
      thought: fc.option(textWith(markers), { nil: undefined }),
      says: textWith(markers),
      calls: fc.array(fc.record({ name: fc.stringMatching(/^[a-z][\w-]{0,8}$/), value: textWith(markers) }), {
        maxLength: 2,
      }),
    })
    .map(({ thought, says, calls }) => {
      const parts: ContentPart[] = []
      if (thought !== undefined) parts.push(thinking(thought))
      parts.push(text(says), ...calls.map(({ name, value }) => toolCall(name, { value })))
      return assistant(parts)
    })

/** Runs a check, leaving out what the format says it cannot write; returns whether it ran. */
function attempt(check: () => void): boolean {
  try {
    check()
    return true
  } catch (error) {
    if (error instanceof UnsupportedConversationError || error instanceof DelimiterInTextError) return false
    throw error
  }
}

/** Tries a check on random answers; returns the share of them that the format could write. */
function overAnswers(
  renderer: Renderer,
  markers: readonly string[],
  numRuns: number,
  check: (messages: Message[]) => void,
): number {
  let ran = 0
  fc.assert(
    fc.property(textWith(markers), answerWith(markers), (asked, answer) => {
      if (attempt(() => check([user(asked), answer]))) ran++
    }),
    { numRuns, seed: SEED },
  )
  return ran / numRuns
}

describe.each(allFormats.map((format) => [format.name, format] as const))('%s', (_name, format) => {
  const renderer = standInRenderer(format)
  const markers = [...format.markers, ...(format.softMarkers ?? [])]

  it('reads back what it writes, up to normalisation', () => {
    expect(overAnswers(renderer, markers, 120, (messages) => checkRoundTrip(renderer, messages))).toBeGreaterThan(0.05)
  })

  it('reads a stream as it reads the whole, cut at every place', () => {
    expect(
      overAnswers(renderer, markers, 25, (messages) => {
        const { prompt, target } = checkExample(renderer, messages)
        checkStreaming(renderer, [...target].slice(0, 60), prompt)
      }),
    ).toBeGreaterThan(0.05)
  })

  it('never throws on tokens, whatever they are, and streams them the same', () => {
    const { vocabSize } = renderer.tokenizer
    const firstControl = Math.min(vocabSize, ...(renderer.tokenizer.controlIds ?? []))
    const id = fc.oneof(
      fc.integer({ min: 0, max: firstControl - 1 }),
      fc.integer({ min: firstControl, max: vocabSize - 1 }),
    )
    const tried = () =>
      fc.assert(
        fc.property(fc.array(id, { maxLength: 14 }), (ids) => checkStreaming(renderer, ids)),
        { numRuns: 100, seed: SEED },
      )
    expect(tried).not.toThrow()
  })

  it('makes no control token of any text in any field', () => {
    const tried = () =>
      fc.assert(
        fc.property(fc.array(textWith(markers), { minLength: 6, maxLength: 6 }), ([a, b, c, d, e, f]) => {
          const word = `n${d!}`.replaceAll(/\s/gu, '_')
          const called = [user(b!), assistant([text(c!), toolCall(word, { value: e! })])]
          attempt(() => checkInjection(renderer, [system(a!), user(b!), assistant(c!), user(d!)]))
          attempt(() => checkInjection(renderer, [...called, toolResult(f!, { name: word, toolCallId: e! })]))
          attempt(() =>
            checkInjection(
              renderer,
              [system(a!), user(b!)],
              [{ name: word, description: c!, parameters: { title: f! } }],
            ),
          )
        }),
        { numRuns: 100, seed: SEED },
      )
    expect(tried).not.toThrow()
  })

  it('continues from the very ids that were sampled', () => {
    expect(
      overAnswers(renderer, [], 60, (messages) => checkBridge(renderer, messages, [user('Next.')])),
    ).toBeGreaterThan(0.05)
  })
})

describe('qwen3 with its own vocabulary', () => {
  const renderer = getRenderer('qwen3', qwen3Tokenizer())
  const markers = ['<|im_start|>', '<|im_end|>', '<think>', '</think>', '<tool_call>', '</tool_call>', '<|endoftext|>']

  /** The vocabulary normalises text to NFC, and so does what comes back. */
  const composed = (messages: readonly Message[]) => JSON.parse(JSON.stringify(messages).normalize('NFC')) as Message[]

  it('reads back what it writes', () => {
    expect(
      overAnswers(renderer, markers, 60, (messages) => checkRoundTrip(renderer, composed(messages))),
    ).toBeGreaterThan(0.05)
  })
  it('reads a stream as it reads the whole', () => {
    expect(
      overAnswers(renderer, markers, 10, (messages) => {
        const { prompt, target } = checkExample(renderer, messages)
        checkStreaming(renderer, [...target].slice(0, 60), prompt)
      }),
    ).toBeGreaterThan(0.05)
  })
  it('makes no control token of any text', () => {
    const tried = () =>
      fc.assert(
        fc.property(textWith(markers), textWith(markers), (a, b) => checkInjection(renderer, [system(a), user(b)])),
        { numRuns: 60, seed: SEED },
      )
    expect(tried).not.toThrow()
  })
})

it('role_colon refuses text that contains a delimiter, with a typed error', () => {
  const renderer = standInRenderer(allFormats.find(({ name }) => name === 'role_colon')!)
  fc.assert(
    fc.property(fc.string(), fc.constantFrom('User', 'Assistant', 'System'), fc.string(), (before, name, after) => {
      expect(() => renderer.generationPrompt([user(`${before}\n\n${name}:${after}`)])).toThrow(DelimiterInTextError)
    }),
    { numRuns: 50, seed: SEED },
  )
})
