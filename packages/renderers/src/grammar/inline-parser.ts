import type { Markup } from '../markup.js'
import { isSymbol, type FormatVocabulary } from '../vocabulary.js'
import type { BodyParser, PartSink } from './body.js'
import { Anchors } from './anchors.js'
import { frameBreaks } from './frame.js'
import type { InlineGrammar } from './inline.js'

/** The mark by which a frame is recognised: its first marker, or all of its text if it has none. */
function anchorOf(vocabulary: FormatVocabulary, markup: Markup): string {
  const segments = vocabulary.segments(markup)
  const marker = segments.find((segment) => segment.marker !== undefined)
  if (marker?.marker !== undefined) return vocabulary.symbolOfMarker(marker.marker)
  return vocabulary.symbols(markup).trim()
}

type Mode = 'text' | 'thinking' | 'call'

/** Reads a body of text with inline blocks, as declared by an {@link InlineGrammar}. */
export class InlineParser implements BodyParser {
  readonly #grammar: InlineGrammar
  readonly #vocabulary: FormatVocabulary
  readonly #sink: PartSink
  readonly #marks: Readonly<Record<'think' | 'thinkEnd' | 'call' | 'callEnd', string | undefined>>
  readonly #sectionMarks: ReadonlySet<string>
  readonly #anchors: Readonly<Record<Mode, Anchors>>
  readonly #breaks: ReturnType<typeof frameBreaks>
  readonly #tails: Anchors
  #mode: Mode = 'text'
  #buffer = ''
  /** Text or reasoning that is only written once something else follows. */
  #held = ''
  #skipBreaks = false
  #lead: string
  #inSection = false
  #bare = ''

  constructor(grammar: InlineGrammar, vocabulary: FormatVocabulary, sink: PartSink) {
    this.#grammar = grammar
    this.#vocabulary = vocabulary
    this.#sink = sink
    const anchor = (markup: Markup | undefined) => (markup ? anchorOf(vocabulary, markup) : undefined)
    const { thinking, toolCalls } = grammar
    this.#marks = {
      think: anchor(thinking?.open),
      thinkEnd: anchor(thinking?.close),
      call: anchor(toolCalls?.open),
      callEnd: anchor(toolCalls?.close),
    }
    const section = toolCalls?.section
    const sectionMarks = section
      ? [
          anchor(section.open)!,
          anchor(section.close)!,
          ...(section.accept ?? []).map((m) => vocabulary.symbolOfMarker(m)),
        ]
      : []
    this.#sectionMarks = new Set(sectionMarks)
    const known = (...marks: (string | undefined)[]) => new Anchors(marks.filter((mark) => mark !== undefined))
    this.#anchors = {
      text: known(this.#marks.think, this.#marks.call, ...sectionMarks),
      thinking: known(this.#marks.think, this.#marks.thinkEnd),
      call: known(this.#marks.callEnd),
    }
    this.#breaks = thinking ? frameBreaks(thinking) : { inside: false, before: false, behind: false }
    const tail = (value: string | undefined) => (value ? [`${value}\0`] : [])
    this.#tails = new Anchors([...tail(toolCalls?.separator), ...tail(grammar.trail)])
    this.#lead = grammar.lead ?? ''
  }

  push(symbols: string): void {
    this.#buffer += symbols
    for (;;) {
      const anchors = this.#anchors[this.#mode]
      const found = anchors.first(this.#buffer)
      if (!found) {
        if (this.#mode === 'call') return
        const keep = anchors.pending(this.#buffer)
        const ready = this.#buffer.slice(0, this.#buffer.length - keep)
        this.#buffer = this.#buffer.slice(this.#buffer.length - keep)
        this.#write(ready)
        return
      }
      const before = this.#buffer.slice(0, found.at)
      this.#buffer = this.#buffer.slice(found.at + found.anchor.length)
      this.#meet(found.anchor, before)
    }
  }

  #meet(anchor: string, before: string): void {
    if (this.#mode === 'call') return this.#closeCall(before)
    this.#write(before)
    if (this.#mode === 'thinking') {
      if (anchor === this.#marks.thinkEnd) this.#closeThinking()
      // A second opening mark where the prompt already opened the block is that same opening.
      else if (!this.#skipBreaks) this.#write(this.#vocabulary.spell(anchor))
      return
    }
    if (anchor === this.#marks.think) {
      this.#flushText('block')
      this.#mode = 'thinking'
      this.#skipBreaks = true
    } else if (anchor === this.#marks.call) {
      this.#flushText('call')
      this.#mode = 'call'
    } else {
      this.#flushText('block')
      this.#inSection = this.#sectionMarks.has(anchor) && !this.#inSection
    }
  }

  #closeThinking(): void {
    if (!this.#breaks.before) this.#sink.thinking(this.#held)
    this.#held = ''
    this.#mode = 'text'
    this.#skipBreaks = this.#breaks.behind
  }

  #closeCall(inner: string): void {
    const parsed = this.#grammar.toolCalls!.payload.parse(inner, this.#vocabulary)
    if (typeof parsed === 'string') this.#unparsed(inner, parsed)
    else this.#sink.part(parsed)
    this.#mode = 'text'
  }

  /** The frame's own line breaks around the payload are no part of what stands there. */
  #unparsed(inner: string, error: string): void {
    const breaks = frameBreaks(this.#grammar.toolCalls!)
    let raw = this.#vocabulary.spell(inner)
    if (breaks.inside && raw.startsWith('\n')) raw = raw.slice(1)
    if (breaks.before && raw.endsWith('\n')) raw = raw.slice(0, -1)
    this.#sink.part({ type: 'unparsed_tool_call', rawText: raw, error })
  }

  #write(symbols: string): void {
    let ready = this.#spell(symbols)
    if (this.#lead !== '' && ready !== '') ready = this.#takeLead(ready)
    if (this.#skipBreaks && ready !== '') {
      if (this.#mode === 'text' || this.#breaks.inside) ready = ready.replace(/^\n+/, '')
      if (ready !== '') this.#skipBreaks = false
    }
    if (ready === '') return
    const pending = this.#held + ready
    if (this.#mode === 'thinking') {
      const kept = this.#breaks.before ? /\n*$/.exec(pending)![0].length : 0
      this.#sink.thinking(pending.slice(0, pending.length - kept))
      this.#held = pending.slice(pending.length - kept)
    } else if (this.#grammar.bareCall && /^\s*(\{|$)/.test(this.#bare + pending) && this.#sink.parts.length === 0) {
      this.#bare += pending
      this.#held = ''
    } else this.#writeText(this.#bare + pending)
  }

  #writeText(pending: string): void {
    this.#bare = ''
    const kept = this.#tails.pending(pending)
    this.#sink.text(pending.slice(0, pending.length - kept))
    this.#held = pending.slice(pending.length - kept)
  }

  /** The one lead that stands before the text, which may come in several pushes. */
  #takeLead(ready: string): string {
    const joined = this.#held + ready
    this.#held = ''
    if (joined.length < this.#lead.length && this.#lead.startsWith(joined)) {
      this.#held = joined
      return ''
    }
    const lead = this.#lead
    this.#lead = ''
    return joined.startsWith(lead) ? joined.slice(lead.length) : joined
  }

  /** Markers that mean nothing here are spelled out; those that a turn cannot contain break the response. */
  #spell(symbols: string): string {
    for (const character of symbols)
      if (isSymbol(character) && this.#vocabulary.isStructural(character))
        this.#sink.fail(`unexpected ${this.#vocabulary.spell(character)} inside the message`)
    return this.#vocabulary.spell(symbols)
  }

  /** Writes what was held back of the text, less what belongs to the block that follows. */
  #flushText(before: 'call' | 'block' | 'stop' | 'eos' | 'cut'): void {
    const { trail, toolCalls } = this.#grammar
    const separator = toolCalls?.separator ?? ''
    let rest = this.#bare + this.#held
    if (before === 'call' && separator !== '' && rest.endsWith(separator)) rest = rest.slice(0, -separator.length)
    if (before === 'eos' && trail !== undefined && rest.endsWith(trail)) rest = rest.slice(0, -trail.length)
    if (this.#inSection && rest.trim() === '') rest = ''
    this.#sink.text(rest)
    this.#held = ''
    this.#bare = ''
    this.#skipBreaks = false
  }

  finish(end: 'stop' | 'eos' | undefined): void {
    if (this.#mode === 'call') {
      this.#unparsed(this.#buffer, 'unterminated tool call: the message ended inside it')
      this.#buffer = ''
      return
    }
    this.#write(this.#buffer)
    this.#buffer = ''
    if (this.#mode === 'thinking') return this.#closeThinking()
    const bare = this.#bare === '' ? undefined : this.#grammar.bareCall?.parse(this.#bare, this.#vocabulary)
    if (bare && typeof bare !== 'string' && end !== undefined) {
      this.#bare = ''
      this.#sink.part(bare)
    }
    this.#flushText(end ?? 'cut')
  }
}
