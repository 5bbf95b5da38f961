import { ChatFormatError, UnsupportedConversationError } from '../errors.js'
import { contentOf, partsOf, type ContentPart, type ToolCallPart } from '../messages.js'
import { concat, data, type Markup } from '../markup.js'
import type { FormatVocabulary } from '../vocabulary.js'
import type { AssistantBody, BodyParser, PartSink, ThinkingPolicy } from './body.js'
import { frameBreaks, type Frame } from './frame.js'
import { InlineParser } from './inline-parser.js'
import type { CallPayload } from './payload.js'
import { stripPython } from './strip.js'

export interface ToolCallGrammar extends Frame {
  readonly payload: CallPayload
  /** Stands between text and the first call, and between calls. Default nothing. */
  readonly separator?: string
  /** Stands around all calls of a message. `accept` lists further spellings that models write for the two marks. */
  readonly section?: Frame & { readonly accept?: readonly string[] }
}

/** The declaration of a body in which thinking and tool calls are blocks within text. */
export interface InlineGrammar {
  /** Reasoning. Default: the format has none. */
  readonly thinking?: Frame
  /** Tool calls as blocks. Default: the format has none. */
  readonly toolCalls?: ToolCallGrammar
  /** The whole text of a turn is one call and nothing else (Llama 3.1). */
  readonly bareCall?: CallPayload
  /** Text is stripped of blanks at both ends when it is written. Default false. */
  readonly trim?: boolean
  /** Stands before the text and belongs to what the model writes. */
  readonly lead?: string
  /** May stand after the text when the end-of-sequence token ends the turn. */
  readonly trail?: string
}

/** A body of text with inline blocks: ChatML, Qwen, Llama, DeepSeek, Kimi, Gemma. */
export function inlineBody(grammar: InlineGrammar = {}): AssistantBody {
  const { thinking, toolCalls } = grammar
  if (toolCalls && grammar.bareCall) throw new ChatFormatError('inlineBody: give toolCalls or bareCall, not both')
  return {
    hasThinking: thinking !== undefined,
    hasToolCalls: toolCalls !== undefined || grammar.bareCall !== undefined,
    render: (parts, policy) => renderInline(grammar, parts, policy),
    normalise: (parts, policy) => normaliseInline(grammar, parts, policy),
    parser: (vocabulary: FormatVocabulary, sink: PartSink): BodyParser => new InlineParser(grammar, vocabulary, sink),
  }
}

const stripBreaks = (value: string, start: boolean, end: boolean): string => {
  const from = start ? value.replace(/^\n+/, '') : value
  return end ? from.replace(/\n+$/, '') : from
}

/** Reasoning as it stands within its frame. */
const framedThinking = (frame: Frame, thought: string): string => {
  const breaks = frameBreaks(frame)
  return stripBreaks(thought, breaks.inside, breaks.before)
}

function renderInline(grammar: InlineGrammar, parts: readonly ContentPart[], policy: ThinkingPolicy): Markup {
  if (grammar.bareCall && parts.some((part) => part.type === 'tool_call')) return renderBare(grammar.bareCall, parts)
  const { thinking, toolCalls } = grammar
  const pieces: Markup[] = grammar.lead === undefined ? [] : [data(grammar.lead)]
  const state = { calls: 0, inSection: false, behindFrame: false, hasText: false }
  const leaveSection = () => {
    if (state.inSection) pieces.push(toolCalls!.section!.close)
    state.inSection = false
  }
  const frame = (thought: string) => {
    if (!thinking) return
    leaveSection()
    pieces.push(thinking.open, data(framedThinking(thinking, thought)), thinking.close)
    state.behindFrame = frameBreaks(thinking).behind
  }
  const opensWithThought = parts[0]?.type === 'thinking'
  if (policy === 'blank' || (policy === 'frame' && !opensWithThought)) frame('')
  for (const part of trimmed(grammar, parts))
    if (part.type === 'thinking') {
      if (policy === 'keep' || policy === 'frame') frame(part.thinking)
    } else if (part.type === 'text') {
      leaveSection()
      const written = state.behindFrame ? part.text.replace(/^\n+/, '') : part.text
      pieces.push(data(written))
      state.behindFrame = false
      state.hasText = written !== ''
    } else pieces.push(renderCall(grammar, part, state))
  leaveSection()
  return concat(...pieces)
}

interface CallState {
  calls: number
  inSection: boolean
  behindFrame: boolean
  hasText: boolean
}

function renderCall(
  { toolCalls }: InlineGrammar,
  part: Exclude<ContentPart, { type: 'text' | 'thinking' }>,
  state: CallState,
): Markup {
  if (!toolCalls) throw new UnsupportedConversationError('this chat format has no tool calls')
  const separator = data(toolCalls.separator ?? '')
  const pieces: Markup[] = []
  if (toolCalls.section && !state.inSection) {
    pieces.push(toolCalls.section.open)
    state.inSection = true
  } else if (state.hasText || state.calls > 0) pieces.push(separator)
  const payload = part.type === 'tool_call' ? toolCalls.payload.render(part, state.calls) : data(part.rawText)
  state.calls++
  state.behindFrame = false
  state.hasText = false
  return concat(...pieces, toolCalls.open, payload, toolCalls.close)
}

function renderBare(payload: CallPayload, parts: readonly ContentPart[]): Markup {
  const call = parts[0]
  if (parts.length !== 1 || call?.type !== 'tool_call')
    throw new UnsupportedConversationError(
      'this chat format writes a tool call as the whole message: expected exactly one call and no text beside it',
    )
  return payload.render(call, 0)
}

/** The parts as they are written: text stripped where the format strips it. */
function trimmed(grammar: InlineGrammar, parts: readonly ContentPart[]): ContentPart[] {
  if (!grammar.trim) return [...parts]
  const joined = partsOf({ content: [...parts] })
  return joined.map((part) => (part.type === 'text' ? { ...part, text: stripPython(part.text) } : part))
}

function normaliseInline(grammar: InlineGrammar, parts: readonly ContentPart[], policy: ThinkingPolicy): ContentPart[] {
  const normal: ContentPart[] = []
  const breaksBehind = grammar.thinking !== undefined && frameBreaks(grammar.thinking).behind
  let calls = 0
  let behindFrame = breaksBehind && (policy === 'blank' || policy === 'frame')
  for (const part of trimmed(grammar, parts)) {
    if (part.type === 'thinking') {
      if (!grammar.thinking || policy === 'drop' || policy === 'blank') continue
      const thought = framedThinking(grammar.thinking, part.thinking)
      if (thought !== '') normal.push({ type: 'thinking', thinking: thought })
      behindFrame = breaksBehind
      continue
    }
    if (part.type === 'text') normal.push({ ...part, text: behindFrame ? part.text.replace(/^\n+/, '') : part.text })
    else if (part.type === 'tool_call') normal.push(normalCall(grammar, part, calls++))
    else {
      calls++
      normal.push(part)
    }
    behindFrame = false
  }
  const content = contentOf(normal)
  return typeof content === 'string' ? partsOf({ content }) : content
}

function normalCall(grammar: InlineGrammar, call: ToolCallPart, position: number): ToolCallPart {
  const payload = grammar.bareCall ?? grammar.toolCalls?.payload
  return payload ? payload.normalise(call, position) : call
}
