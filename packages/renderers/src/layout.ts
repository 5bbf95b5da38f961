import { DelimiterInTextError, InvalidMessagesError, UnsupportedConversationError } from './errors.js'
import type { ChatFormat, Turn, TurnContext } from './format.js'
import type { AssistantBody } from './grammar/body.js'
import { markup, type Markup } from './markup.js'
import { checkMessages, checkTools, partsOf, textOf, type Message, type ToolSpec } from './messages.js'
import { TOKENIZER_BOS, withoutPrefix, type FormatVocabulary, type Segment, type Span } from './vocabulary.js'

type SpanKind = 'bos' | 'begin' | 'header' | 'prefill' | 'body' | 'stop' | 'separator'

/** A span of a conversation and where it comes from. */
export interface LaidOutSpan extends Span {
  readonly kind: SpanKind
  /** Index of the message as given; -1 for what the format adds itself. */
  readonly message: number
}

export type CompleteFormat<Options> = ChatFormat<Options> & { readonly body: AssistantBody }

/** A conversation as a format sees it: with the format's own system message, and with the turn that is to be produced. */
export interface Conversation {
  readonly messages: readonly Message[]
  readonly tools: readonly ToolSpec[]
  /** How many messages at the start are the format's own. */
  readonly synthetic: number
  /** Index of the produced assistant message, -1 for none. */
  readonly produced: number
}

/** The message that is about to be sampled. */
export const UPCOMING: Message = { role: 'assistant', content: '' }

/** Lays conversations out as spans, for one format, vocabulary and set of options. */
export class Layout<Options> {
  readonly format: CompleteFormat<Options>
  readonly vocabulary: FormatVocabulary
  readonly options: Options

  constructor(format: CompleteFormat<Options>, vocabulary: FormatVocabulary, options: Options) {
    this.format = format
    this.vocabulary = vocabulary
    this.options = options
  }

  /**
   * Checks a conversation and completes it.
   *
   * @param upcoming whether another assistant message is about to be sampled; otherwise a last assistant message is the
   *   produced one
   * @throws InvalidMessagesError, UnsupportedConversationError, DelimiterInTextError
   */
  conversation(messages: readonly Message[], tools: readonly ToolSpec[], upcoming: boolean): Conversation {
    if (messages.length === 0) throw new InvalidMessagesError('messages: expected at least one message, got none')
    checkMessages(messages)
    checkTools(tools)
    const { format, options } = this
    this.#checkSupported(messages, tools)
    const given = messages[0]!.role === 'system' ? undefined : format.defaultSystem?.({ messages, tools, options })
    const own: Message[] = given === undefined ? [] : [{ role: 'system', content: given }]
    const complete = [...own, ...messages, ...(upcoming ? [UPCOMING] : [])]
    format.check?.({ messages: complete, tools, options })
    const produced = complete.at(-1)!.role === 'assistant' ? complete.length - 1 : -1
    return { messages: complete, tools, synthetic: own.length, produced }
  }

  #checkSupported(messages: readonly Message[], tools: readonly ToolSpec[]): void {
    const { name, body, delimiters = [] } = this.format
    const refuse = (problem: string, details: Record<string, unknown> = {}): never => {
      throw new UnsupportedConversationError(`${name}: ${problem}`, { format: name, ...details })
    }
    if (!body.hasToolCalls && tools.length > 0) refuse('this chat format has no tools; leave tools out')
    messages.forEach((message, index) => {
      const parts = partsOf(message)
      const isCall = parts.some((part) => part.type === 'tool_call' || part.type === 'unparsed_tool_call')
      if (!body.hasToolCalls && (message.role === 'tool' || isCall))
        refuse(`message ${index} belongs to a tool, and this chat format has no tools`, { index })
      if (message.role !== 'assistant' && parts.some((part) => part.type !== 'text'))
        refuse(`message ${index}: only assistant messages can hold thinking or tool calls`, { index })
      const forged = delimiters.find((delimiter) => textOf(message).includes(delimiter))
      if (forged !== undefined)
        throw new DelimiterInTextError(
          `${name}: message ${index} contains ${JSON.stringify(forged)}, which this text-only format reads as the start of a turn; change the text or use a format with control tokens`,
          { format: name, index, delimiter: forged },
        )
    })
  }

  /** What the format says of one turn. */
  turn(conversation: Conversation, index: number, produced = index === conversation.produced): Turn {
    const { messages, tools, synthetic } = conversation
    const message = messages[index]!
    const context: TurnContext<Options> = {
      messages,
      tools,
      options: this.options,
      message,
      role: message.role,
      text: textOf(message),
      index,
      previous: messages[index - 1],
      next: messages[index + 1],
      lastUserIndex: messages.findLastIndex(({ role }) => role === 'user'),
      produced,
      synthetic: index < synthetic,
    }
    return this.format.turn(context)
  }

  /** What stands before the first turn. */
  opening(conversation: Conversation): LaidOutSpan[] {
    const { bos, begin } = this.format
    const { messages, tools } = conversation
    const spans: LaidOutSpan[] = []
    const marker = bos === 'tokenizer' ? TOKENIZER_BOS : bos
    if (marker !== undefined && this.vocabulary.idOf(marker) !== undefined)
      spans.push({ kind: 'bos', message: -1, cut: false, segments: [{ marker }] })
    if (begin) {
      const segments = this.vocabulary.segments(begin({ messages, tools, options: this.options }))
      spans.push({ kind: 'begin', message: -1, cut: false, segments })
    }
    return spans
  }

  /** The spans of one turn. For an assistant turn that is about to be sampled, see {@link promptEnd}. */
  turnSpans(conversation: Conversation, index: number): LaidOutSpan[] {
    const message = conversation.messages[index]!
    const source = index - conversation.synthetic
    const turn = this.turn(conversation, index)
    const isProduced = index === conversation.produced
    const isAssistant = message.role === 'assistant'
    const body = isAssistant ? this.#assistantBody(turn, message, index, isProduced) : bodyOf(turn, message)
    const end = this.vocabulary.segments(turn.end)
    const [stop, separator] = isProduced ? [this.producedEnd(turn), []] : this.splitEnd(end)
    let segments = this.vocabulary.segments(body)
    const prefill = this.vocabulary.segments(turn.prefill ?? { pieces: [] })
    if (prefill.length > 0) segments = this.#withoutPrefill(segments, prefill, index)
    const span = (kind: SpanKind, of: readonly Segment[], cut = false): LaidOutSpan => ({
      kind,
      message: source,
      cut,
      segments: of,
    })
    return [
      span('header', this.vocabulary.segments(turn.header)),
      ...(prefill.length > 0 ? [span('prefill', prefill)] : []),
      span('body', segments, isAssistant || this.format.cutBodies === true),
      span('stop', stop),
      ...(separator.length > 0 ? [span('separator', separator)] : []),
    ]
  }

  #assistantBody(turn: Turn, message: Message, index: number, produced: boolean): Markup {
    const { name, body } = this.format
    const parts = partsOf(message)
    const policy = body.hasThinking ? (turn.thinking ?? 'keep') : 'drop'
    if (produced && (policy === 'drop' || policy === 'blank') && parts.some((part) => part.type === 'thinking'))
      throw new UnsupportedConversationError(
        `${name}: message ${index} reasons, but this format does not let the model reason there; take the thinking parts out or use a thinking format`,
        { format: name, index },
      )
    return body.render(parts, policy)
  }

  #withoutPrefill(segments: readonly Segment[], prefill: readonly Segment[], index: number): Segment[] {
    const rest = withoutPrefix(segments, prefill)
    if (rest) return rest
    const { name } = this.format
    throw new UnsupportedConversationError(
      `${name}: message ${index} does not begin as this format's prompts begin an answer; with thinking closed by the prompt a message cannot reason`,
      { format: name, index },
    )
  }

  /** Header and prefill of the assistant message that is about to be sampled. */
  promptEnd(conversation: Conversation): LaidOutSpan[] {
    const turn = this.turn(conversation, conversation.produced)
    const prefill = this.vocabulary.segments(turn.prefill ?? { pieces: [] })
    const common = { message: conversation.produced - conversation.synthetic, cut: false }
    return [
      { ...common, kind: 'header', segments: this.vocabulary.segments(turn.header) },
      ...(prefill.length > 0 ? [{ ...common, kind: 'prefill' as const, segments: prefill }] : []),
    ]
  }

  /** What a sampler emits at the end of a turn: up to the stop marker, or the format's stop string. */
  producedEnd(turn: Turn): Segment[] {
    const end = this.vocabulary.segments(turn.end)
    const [stop, separator] = this.splitEnd(end)
    if (separator.length > 0 || stop.some((segment) => segment.marker !== undefined)) return stop
    const textStop = this.format.stop.find((entry) => !this.format.markers.includes(entry))
    return textStop === undefined ? stop : [{ text: textStop }]
  }

  /** The end of a turn, cut behind its stop marker; without one all of it counts as the stop. */
  splitEnd(end: readonly Segment[]): [stop: Segment[], separator: Segment[]] {
    const at = end.findIndex(({ marker }) => marker !== undefined && this.format.stop.includes(marker))
    return at < 0 ? [[...end], []] : [end.slice(0, at + 1), end.slice(at + 1)]
  }

  /** All spans of a conversation. A produced message is written out unless it is only about to be sampled. */
  spans(conversation: Conversation, upcoming: boolean): LaidOutSpan[] {
    const last = upcoming ? conversation.messages.length - 1 : conversation.messages.length
    const spans = this.opening(conversation)
    for (let index = 0; index < last; index++) spans.push(...this.turnSpans(conversation, index))
    if (upcoming) spans.push(...this.promptEnd(conversation))
    return spans
  }
}

const bodyOf = (turn: Turn, message: Message): Markup => turn.body ?? markup`${textOf(message)}`
