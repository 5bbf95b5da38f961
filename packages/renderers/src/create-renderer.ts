import { bridgeIds } from './bridge.js'
import { ChatFormatError, UnsupportedConversationError } from './errors.js'
import { defineChatFormat, type ChatFormat } from './format.js'
import { data, markup, type Markup } from './markup.js'
import { Layout } from './layout.js'
import { contentOf, partsOf, text, thinking, type ContentPart, type Message } from './messages.js'
import { didYouMean } from './nearest.js'
import { onlyKeys } from './options.js'
import { parseStream } from './parse.js'
import type { ParseOptions, ParseStream, ParsedResponse, Renderer } from './renderer.js'
import { supervisedExample, supervisedExamples } from './supervised.js'
import type { Tokenizer } from './tokenizer.js'
import { FormatVocabulary, withoutSymbols } from './vocabulary.js'

/**
 * Makes a renderer from the description of a format.
 *
 * @param options what the format's `options` schema asks for
 * @throws ChatFormatError when the tokenizer lacks a marker of the format, or an option is missing or unknown
 */
export function createRenderer<O>(format: ChatFormat<O>, tokenizer: Tokenizer, options: unknown = {}): Renderer {
  const complete = defineChatFormat(format)
  const { name, markers, softMarkers = [], eos = [], body } = complete
  const vocabulary = new FormatVocabulary(name, markers, softMarkers, eos, tokenizer)
  const layout = new Layout<O>(complete, vocabulary, checkOptions(complete, options))
  const usualPrefill = once(() => usualTurnPrefill(layout))
  const setup = { vocabulary, body, stop: complete.stop.map((entry) => vocabulary.symbolOfMarker(entry)) }
  const stop = [...complete.stop.map((entry) => vocabulary.idOf(entry) ?? entry), ...vocabulary.eosIds]
  const extendsHistory = once(() => doesExtendHistory(layout))
  const stream = (parseOptions: ParseOptions): ParseStream => {
    onlyKeys('parse', parseOptions, ['prefill', 'prompt'])
    const own = promptPrefill(vocabulary, usualPrefill(), prefillOf(parseOptions.prefill), parseOptions.prompt)
    return parseStream(setup, vocabulary.symbols(own) + vocabulary.symbols(prefillOf(parseOptions.prefill)))
  }
  const prefillSpan = (prefill: string | Markup | undefined) =>
    prefill === undefined ? [] : [{ segments: vocabulary.segments(prefillOf(prefill)), cut: true }]

  return {
    name,
    tokenizer,
    stop,
    markerIds: vocabulary.markerIds,
    get extendsHistory() {
      return extendsHistory()
    },
    generationPrompt(messages, given = {}) {
      onlyKeys('generationPrompt', given, ['tools', 'prefill'])
      const { tools = [], prefill } = given
      const spans = layout.spans(layout.conversation(messages, tools, true), true)
      return Int32Array.from(vocabulary.encode([...spans, ...prefillSpan(prefill)]).ids)
    },
    supervisedExample: (messages, given) => supervisedExample(layout, messages, given),
    supervisedExamples: (messages, given) => supervisedExamples(layout, messages, given),
    parse(ids, parseOptions = {}): ParsedResponse {
      const parser = stream(parseOptions)
      parser.push(ids)
      const { events: _events, ...parsed } = parser.finish()
      return parsed
    },
    parseStream: (parseOptions = {}) => stream(parseOptions),
    normalise: (message) => normalise(layout, message),
    bridge(transcript, newMessages, bridgeOptions = {}) {
      onlyKeys('bridge', bridgeOptions, ['tools', 'prefill', 'history'])
      const before = Array.from(transcript)
      const after = bridgeIds(layout, before, newMessages, bridgeOptions)
      const prefill = vocabulary.encode(prefillSpan(bridgeOptions.prefill)).ids
      return Int32Array.from([...before, ...after, ...prefill])
    },
  }
}

/** A caller's prefill as markup: a string is plain text. */
const prefillOf = (prefill: string | Markup | undefined): Markup =>
  typeof prefill === 'string' ? data(prefill) : (prefill ?? markup``)

function once<T>(make: () => T): () => T {
  let made: { value: T } | undefined
  return () => (made ??= { value: make() }).value
}

/** A conversation that ends with an answer to a plain question. */
const answered = (content: Message['content']): Message[] => [
  { role: 'user', content: 'x' },
  { role: 'assistant', content },
]

/** What the prompt gives an answer to a plain question to begin with. */
function usualTurnPrefill<O>(layout: Layout<O>): Markup {
  const conversation = layout.conversation([answered('')[0]!], [], true)
  return layout.turn(conversation, conversation.produced).prefill ?? markup``
}

/** The format's own beginning of the answer, unless the prompt shows that there was none. */
function promptPrefill(
  vocabulary: FormatVocabulary,
  usual: Markup,
  callers: Markup,
  prompt: readonly number[] | Int32Array | undefined,
): Markup {
  if (prompt === undefined || usual.pieces.length === 0) return usual
  const ids = (of: Markup) => vocabulary.encode([{ segments: vocabulary.segments(of), cut: true }]).ids
  const callersLength = ids(callers).length
  const expected = ids(usual)
  const end = prompt.length - callersLength
  return expected.every((id, k) => prompt[end - expected.length + k] === id) ? usual : markup``
}

function normalise<O>(layout: Layout<O>, message: Message): Message {
  const conversation = layout.conversation(answered(message.content), [], false)
  const policy = layout.turn(conversation, conversation.produced).thinking ?? 'keep'
  const { body } = layout.format
  const parts = body.normalise(partsOf(message), body.hasThinking ? policy : 'drop')
  return { role: 'assistant', content: contentOf(parts.map(withoutSymbolsIn)) }
}

function withoutSymbolsIn(part: ContentPart): ContentPart {
  if (part.type === 'text') return { ...part, text: withoutSymbols(part.text) }
  if (part.type === 'thinking') return { ...part, thinking: withoutSymbols(part.thinking) }
  if (part.type === 'unparsed_tool_call') return { ...part, rawText: withoutSymbols(part.rawText) }
  return { ...part, name: withoutSymbols(part.name), arguments: withoutSymbols(part.arguments) }
}

/** Whether the second prompt of a probe conversation starts with the first and its answer, reasoning included. */
function doesExtendHistory<O>(layout: Layout<O>): boolean {
  const extendsAfter = (content: Message['content']) =>
    supervisedExamples(layout, [...answered(content), ...answered('d')], { trainOn: 'all_assistant_messages' })
      .length === 1
  try {
    return extendsAfter([thinking('a'), text('b')])
  } catch (error) {
    if (error instanceof UnsupportedConversationError) return extendsAfter('b')
    throw error
  }
}

/** Checks the options of a format. Unknown keys are refused with the nearest known one. */
function checkOptions<O>(format: ChatFormat<O>, options: unknown): O {
  const given = typeof options === 'object' && options !== null ? Object.keys(options) : []
  const { name, options: schema } = format
  if (!schema) {
    if (given.length > 0)
      throw new ChatFormatError(`${name}: this chat format takes no options, got ${given.join(', ')}`)
    return {} as O
  }
  const checked = schema.safeParse(options)
  if (checked.success) return checked.data
  const issue = checked.error.issues[0]!
  const known = 'shape' in schema ? Object.keys(schema.shape as object) : []
  const hint = issue.code === 'unrecognized_keys' && known.length > 0 ? didYouMean(issue.keys[0]!, known, '; ') : ''
  const place = issue.path.length > 0 ? `option ${issue.path.join('.')}: ` : ''
  throw new ChatFormatError(`${name}: ${place}${issue.message}${hint}`, { format: name })
}
