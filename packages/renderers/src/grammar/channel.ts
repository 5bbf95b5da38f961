import { UnsupportedConversationError } from '../errors.js'
import { contentOf, partsOf, type ContentPart } from '../messages.js'
import { concat, data, type Markup } from '../markup.js'
import { isSymbol, type FormatVocabulary } from '../vocabulary.js'
import type { AssistantBody, BodyParser, PartSink, ThinkingPolicy } from './body.js'

/** The declaration of a body that is a sequence of messages on channels, as in OpenAI's Harmony format. */
export interface ChannelGrammar {
  /** Begins a message; the author follows. */
  readonly start: string
  readonly author: string
  /** Stands before the name of a channel. */
  readonly channel: string
  /** Ends a header. */
  readonly message: string
  /** Ends a message that is not the last of the turn. */
  readonly end: string
  readonly thinkingChannel: string
  /** Text before a tool call, and the calls themselves. */
  readonly callChannel: string
  readonly answerChannel: string
  /** Stands before the name of a tool in a recipient. */
  readonly toolPrefix: string
  /** Names the type of the arguments in the header of a call. */
  readonly constraint: string
}

const literal = (value: string): Markup => ({ pieces: [{ literal: value }] })

/** A body in which thinking, text and a tool call are messages of their own, each with a header. */
export function channelBody(grammar: ChannelGrammar): AssistantBody {
  return {
    hasThinking: true,
    hasToolCalls: true,
    render: (parts, policy) => renderChannels(grammar, parts, policy),
    normalise: normaliseChannels,
    parser: (vocabulary, sink) => new ChannelParser(grammar, vocabulary, sink),
  }
}

function renderChannels(g: ChannelGrammar, parts: readonly ContentPart[], policy: ThinkingPolicy): Markup {
  const isCall = (part: ContentPart) => part.type === 'tool_call' || part.type === 'unparsed_tool_call'
  const said = partsOf({
    content: parts.filter((part) => part.type !== 'thinking' || policy === 'keep' || policy === 'frame'),
  })
  const callAt = said.findIndex(isCall)
  if (callAt >= 0 && callAt < said.length - 1)
    throw new UnsupportedConversationError('this chat format has one tool call per turn, as the last thing in it')
  if (callAt < 0 && said.at(-1)?.type !== 'text') said.push({ type: 'text', text: '' })
  const messages = said.map((part): Markup => {
    if (part.type === 'thinking') return concat(literal(g.channel + g.thinkingChannel + g.message), data(part.thinking))
    if (part.type === 'text')
      return concat(literal(g.channel + (callAt < 0 ? g.answerChannel : g.callChannel) + g.message), data(part.text))
    if (part.type === 'unparsed_tool_call') return data(part.rawText)
    const header = literal(`${g.channel}${g.callChannel} ${g.constraint}${g.message}`)
    return concat(literal(` to=${g.toolPrefix}`), data(part.name), header, data(part.arguments))
  })
  const next = literal(g.end + g.start + g.author)
  return concat(...messages.flatMap((message, k) => (k === 0 ? [message] : [next, message])))
}

function normaliseChannels(parts: readonly ContentPart[], policy: ThinkingPolicy): ContentPart[] {
  const normal = parts
    .filter((part) => part.type !== 'thinking' || policy === 'keep' || policy === 'frame')
    .map((part): ContentPart =>
      part.type === 'tool_call' ? { type: 'tool_call', name: part.name, arguments: part.arguments.trim() } : part,
    )
  const content = contentOf(normal)
  return typeof content === 'string' ? partsOf({ content }) : content
}

/** Where a message goes, read leniently: models put the recipient before or after the channel. */
interface Header {
  readonly channel: string | undefined
  readonly recipient: string | undefined
}

type State = 'header' | 'thinking' | 'text' | 'call' | 'between'

class ChannelParser implements BodyParser {
  readonly #g: ChannelGrammar
  readonly #vocabulary: FormatVocabulary
  readonly #sink: PartSink
  readonly #symbols: Readonly<Record<'start' | 'channel' | 'message' | 'end', string>>
  #state: State = 'header'
  /** The header so far, or the arguments of a call so far. */
  #buffer = ''
  #header: Header = { channel: undefined, recipient: undefined }

  constructor(grammar: ChannelGrammar, vocabulary: FormatVocabulary, sink: PartSink) {
    this.#g = grammar
    this.#vocabulary = vocabulary
    this.#sink = sink
    this.#symbols = {
      start: vocabulary.symbolOfMarker(grammar.start),
      channel: vocabulary.symbolOfMarker(grammar.channel),
      message: vocabulary.symbolOfMarker(grammar.message),
      end: vocabulary.symbolOfMarker(grammar.end),
    }
  }

  push(symbols: string): void {
    let start = 0
    for (let at = 0; at < symbols.length; at++) {
      const character = symbols[at]!
      if (!isSymbol(character)) continue
      this.#text(symbols.slice(start, at))
      this.#mark(character)
      start = at + 1
    }
    this.#text(symbols.slice(start))
  }

  #text(value: string): void {
    if (value === '') return
    if (this.#state === 'header' || this.#state === 'call') this.#buffer += value
    else if (this.#state === 'thinking') this.#sink.thinking(value)
    else if (this.#state === 'text') this.#sink.text(value)
    else if (value.trim() !== '') this.#sink.fail(`text between two messages: ${JSON.stringify(value.slice(0, 80))}`)
  }

  #mark(symbol: string): void {
    const { start, message, end } = this.#symbols
    if (this.#state === 'header') {
      if (symbol === message) this.#open()
      else if (symbol === end || symbol === start) this.#unexpected(symbol)
      else this.#buffer += symbol
    } else if (this.#state === 'between') {
      if (symbol === start) this.#state = 'header'
      else this.#unexpected(symbol)
    } else if (symbol === end) {
      if (this.#state === 'call') this.#call()
      this.#state = 'between'
      this.#buffer = ''
    } else {
      this.#unexpected(symbol)
      this.#text(this.#vocabulary.spell(symbol))
    }
  }

  #unexpected(symbol: string): void {
    this.#sink.fail(
      `unexpected ${this.#vocabulary.spell(symbol)} in ${this.#state === 'header' ? 'a header' : 'a message'}`,
    )
  }

  #open(): void {
    this.#header = this.#read(this.#buffer)
    this.#buffer = ''
    const { recipient, channel } = this.#header
    if (recipient !== undefined && recipient !== this.#g.author) this.#state = 'call'
    else this.#state = channel === this.#g.thinkingChannel ? 'thinking' : 'text'
  }

  #read(header: string): Header {
    const spaced = header.replaceAll(this.#symbols.channel, ' \0')
    const words = this.#vocabulary
      .spell(
        Array.from(spaced)
          .map((character) => (isSymbol(character) ? ' ' + character : character))
          .join(''),
      )
      .split(/\s+/)
    const channel = words.find((word) => word.startsWith('\0'))?.slice(1)
    const recipient = words.find((word) => word.startsWith('to='))?.slice(3)
    return { channel, recipient }
  }

  #call(unterminated = false): void {
    const { recipient = '' } = this.#header
    const name = recipient.startsWith(this.#g.toolPrefix) ? recipient.slice(this.#g.toolPrefix.length) : ''
    const args = this.#buffer.trim()
    const error = unterminated
      ? 'unterminated tool call: the message ended inside it'
      : name === ''
        ? `expected a recipient ${this.#g.toolPrefix}<name>, got ${JSON.stringify(recipient)}`
        : argumentsError(args)
    if (error === undefined) this.#sink.part({ type: 'tool_call', name, arguments: args })
    else this.#sink.part({ type: 'unparsed_tool_call', rawText: `to=${recipient} ${this.#buffer}`, error })
    this.#buffer = ''
  }

  finish(end: 'stop' | 'eos' | undefined): void {
    if (this.#state === 'call') return this.#call(end === undefined)
    const rest = this.#vocabulary.spell(this.#buffer)
    if (this.#state === 'header' && rest.trim() !== '' && rest.trim() !== this.#g.author) {
      this.#sink.fail('the message ended inside a header')
      this.#sink.text(rest)
    }
    this.#buffer = ''
  }
}

function argumentsError(args: string): string | undefined {
  try {
    const value: unknown = JSON.parse(args)
    const isObject = value !== null && typeof value === 'object' && !Array.isArray(value)
    return isObject ? undefined : 'expected the arguments to be a JSON object'
  } catch (error) {
    return `invalid JSON in the arguments: ${(error as Error).message}`
  }
}
