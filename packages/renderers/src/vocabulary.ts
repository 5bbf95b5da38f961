import { ChatFormatError } from './errors.js'
import type { Markup } from './markup.js'
import type { Tokenizer } from './tokenizer.js'

/** A stretch of a conversation as it is encoded: plain text, or one marker. */
export type Segment =
  { readonly text: string; readonly marker?: never } | { readonly marker: string; readonly text?: never }

/** Segments that belong together: they get one weight. */
export interface Span {
  readonly segments: readonly Segment[]
  /** The text of this span is never encoded together with text before it: a sampler starts here. */
  readonly cut: boolean
}

/** Stands in segments for the beginning-of-sequence token that the tokenizer names. */
export const TOKENIZER_BOS = '\0bos'

const SYMBOL_BASE = 0xfdd0
const MAX_MARKERS = 31
/** Stands for the end-of-sequence token in symbols. */
export const EOS_SYMBOL = '\ufdef'

/** Whether a character of a symbol string stands for a token. */
export const isSymbol = (character: string): boolean => character >= '\ufdd0' && character <= '\ufdef'

/** Text without the 32 code points that Unicode reserves for internal use and that symbols are made of. */
export const withoutSymbols = (text: string): string => text.replace(/[\ufdd0-\ufdef]/g, '\ufffd')

/**
 * The markers of one format in one vocabulary.
 *
 * Besides ids it knows *symbols*: strings in which each marker is one of the noncharacters U+FDD0 to U+FDEF, which are
 * taken out of decoded text. Parsers read symbols, so that a marker and text that spells it are never confused. A soft marker that the vocabulary
 * does not hold as a token is plain text in both.
 */
export class FormatVocabulary {
  readonly tokenizer: Tokenizer
  readonly markerIds: ReadonlySet<number>
  readonly #ids = new Map<string, number>()
  readonly #symbolOfMarker = new Map<string, string>()
  readonly #symbolOfId = new Map<number, string>()
  readonly #spellings: string[] = []
  readonly #required: ReadonlySet<string>
  readonly #byFirst = new Map<string, string[]>()
  readonly #literals = new Map<string, readonly Segment[]>()
  readonly #short = new Map<string, readonly number[]>()

  /**
   * @param markers tokens that the vocabulary must hold
   * @param softMarkers tokens that are written as text where the vocabulary does not hold them
   * @param eos spellings of end-of-sequence tokens beside the tokenizer's own
   */
  constructor(
    name: string,
    markers: readonly string[],
    softMarkers: readonly string[],
    eos: readonly string[],
    tokenizer: Tokenizer,
  ) {
    this.tokenizer = tokenizer
    if (markers.length + softMarkers.length > MAX_MARKERS)
      throw new ChatFormatError(`${name}: expected at most ${MAX_MARKERS} markers`, { format: name })
    for (const marker of [...markers, ...softMarkers]) {
      const id = controlId(tokenizer, marker)
      if (id !== undefined) this.#add(marker, id)
      else if (markers.includes(marker))
        throw new ChatFormatError(
          `${name}: expected the tokenizer to hold ${JSON.stringify(marker)} as a control token; this model's vocabulary is for another format`,
          { format: name, marker },
        )
    }
    if (tokenizer.bosTokenId !== undefined) this.#ids.set(TOKENIZER_BOS, tokenizer.bosTokenId)
    this.#required = new Set(markers)
    this.markerIds = new Set(this.#ids.values())
    const eosIds = [tokenizer.eosTokenId, ...eos.map((spelling) => controlId(tokenizer, spelling))]
    for (const id of eosIds) if (id !== undefined && !this.#symbolOfId.has(id)) this.#symbolOfId.set(id, EOS_SYMBOL)
  }

  #add(marker: string, id: number): void {
    const symbol = String.fromCharCode(SYMBOL_BASE + this.#spellings.length)
    this.#spellings.push(marker)
    this.#ids.set(marker, id)
    this.#symbolOfMarker.set(marker, symbol)
    this.#symbolOfId.set(id, symbol)
    const first = marker[0]!
    this.#byFirst.set(
      first,
      [...(this.#byFirst.get(first) ?? []), marker].sort((a, b) => b.length - a.length),
    )
  }

  /** The id of a marker; `undefined` when it is no marker of this format or no token of this vocabulary. */
  idOf(marker: string): number | undefined {
    return this.#ids.get(marker)
  }

  /** Ids that end a sequence and are no markers of the format. */
  get eosIds(): number[] {
    return [...this.#symbolOfId].filter(([, symbol]) => symbol === EOS_SYMBOL).map(([id]) => id)
  }

  /** The symbol of a token in a response; `undefined` for tokens that are text. */
  symbolOf(id: number): string | undefined {
    return this.#symbolOfId.get(id)
  }

  /** How a marker stands in symbols: its own symbol, or its spelling if the vocabulary does not hold it. */
  symbolOfMarker(marker: string): string {
    return this.#symbolOfMarker.get(marker) ?? marker
  }

  /** Whether a symbol is a marker without which the format cannot be: out of place it means a broken response. */
  isStructural(symbol: string): boolean {
    const spelling = this.#spellings[symbol.charCodeAt(0) - SYMBOL_BASE]
    return spelling !== undefined && this.#required.has(spelling)
  }

  /** Symbols with every marker spelled out. */
  spell(symbols: string): string {
    let spelled = ''
    for (const character of symbols)
      spelled += isSymbol(character) ? (this.#spellings[character.charCodeAt(0) - SYMBOL_BASE] ?? '') : character
    return spelled
  }

  /** Markup as segments, neighbouring texts joined. */
  segments(markup: Markup): Segment[] {
    const joined: Segment[] = []
    for (const piece of markup.pieces)
      if ('data' in piece) pushSegment(joined, { text: piece.data })
      else for (const segment of this.#split(piece.literal)) pushSegment(joined, segment)
    return joined
  }

  /** Markup as symbols. */
  symbols(markup: Markup): string {
    return this.segments(markup)
      .map((segment) => segment.text ?? this.symbolOfMarker(segment.marker))
      .join('')
  }

  #split(literal: string): readonly Segment[] {
    const known = this.#literals.get(literal)
    if (known) return known
    const segments: Segment[] = []
    let start = 0
    for (let at = 0; at < literal.length;) {
      const marker = this.#byFirst.get(literal[at]!)?.find((spelling) => literal.startsWith(spelling, at))
      if (marker === undefined) {
        at++
        continue
      }
      if (at > start) segments.push({ text: literal.slice(start, at) })
      segments.push({ marker })
      at += marker.length
      start = at
    }
    if (start < literal.length) segments.push({ text: literal.slice(start) })
    if (this.#literals.size < 4096) this.#literals.set(literal, segments)
    return segments
  }

  #encodeText(text: string): readonly number[] {
    if (text.length > 24) return this.tokenizer.encode(text)
    const known = this.#short.get(text)
    if (known) return known
    const ids = this.tokenizer.encode(text)
    if (this.#short.size < 4096) this.#short.set(text, ids)
    return ids
  }

  /**
   * Encodes spans. Text between two markers is encoded as one string, also across spans, as a tokenizer run over the
   * whole conversation would; only a `cut` keeps texts apart. A token that reaches over the end of a span counts to it.
   *
   * @param withEnds whether to find out where the spans end
   * @returns ids, and for each span the number of ids up to its end (empty without `withEnds`)
   */
  encode(spans: readonly Span[], withEnds = false): { ids: number[]; ends: number[] } {
    const ids: number[] = []
    const ends: number[] = []
    let run = ''
    let inside: { span: number; length: number }[] = []
    const flush = () => {
      const encoded = run === '' ? [] : this.#encodeText(run)
      for (const { span, length } of inside)
        ends[span] = ids.length + (length === run.length ? encoded.length : this.#tokensOf(run, length, encoded))
      for (const id of encoded) ids.push(id)
      run = ''
      inside = []
    }
    spans.forEach((span, k) => {
      if (span.cut) flush()
      for (const segment of span.segments)
        if (segment.text !== undefined) run += segment.text
        else {
          flush()
          ids.push(this.#ids.get(segment.marker)!)
        }
      if (withEnds) inside.push({ span: k, length: run.length })
    })
    flush()
    return { ids, ends }
  }

  /** How many tokens of `encoded`, the ids of `text`, it takes to cover its first `length` characters. */
  #tokensOf(text: string, length: number, encoded: readonly number[]): number {
    if (length === 0) return 0
    const prefix = this.tokenizer.encode(text.slice(0, length))
    if (prefix.length <= encoded.length && prefix.every((id, k) => encoded[k] === id)) return prefix.length
    const characters = this.tokenizer.decode(prefix).length
    let count = 1
    while (count < encoded.length && this.tokenizer.decode(encoded.slice(0, count)).length < characters) count++
    return count
  }
}

/** The id of a token that no text encodes to. */
function controlId(tokenizer: Tokenizer, spelling: string): number | undefined {
  const id = tokenizer.tokenId(spelling)
  if (id === undefined || tokenizer.encode(spelling).includes(id)) return undefined
  return id
}

/** Appends a segment, joining it to a text before it. */
function pushSegment(segments: Segment[], segment: Segment): void {
  const last = segments.at(-1)
  if (segment.text === '') return
  if (segment.text !== undefined && last?.text !== undefined)
    segments[segments.length - 1] = { text: last.text + segment.text }
  else segments.push(segment)
}

/** `segments` without `prefix` at their start, or `undefined` when they do not start with it. */
export function withoutPrefix(segments: readonly Segment[], prefix: readonly Segment[]): Segment[] | undefined {
  const rest = [...segments]
  for (const [k, expected] of prefix.entries()) {
    const segment = rest[0]
    if (segment === undefined) return undefined
    if (expected.marker !== undefined) {
      if (segment.marker !== expected.marker) return undefined
      rest.shift()
    } else {
      const isLast = k === prefix.length - 1
      if (segment.text === undefined || !segment.text.startsWith(expected.text)) return undefined
      if (!isLast && segment.text !== expected.text) return undefined
      rest.shift()
      if (segment.text.length > expected.text.length) rest.unshift({ text: segment.text.slice(expected.text.length) })
    }
  }
  return rest
}
