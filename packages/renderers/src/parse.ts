import type { AssistantBody, BodyParser } from './grammar/body.js'
import { PartSink } from './grammar/body.js'
import { Anchors } from './grammar/anchors.js'
import { contentOf } from './messages.js'
import type { ParseEvent, ParseFailure, ParseStream, ParsedResponse, Termination } from './renderer.js'
import type { Tokenizer } from './tokenizer.js'
import { EOS_SYMBOL, withoutSymbols, type FormatVocabulary } from './vocabulary.js'

const MAX_DETAIL = 16_384

/** Turns ids into symbols while they come in; bytes of a character that is not complete yet are held back. */
class SymbolReader {
  readonly #vocabulary: FormatVocabulary
  readonly #tokenizer: Tokenizer
  #pending: number[] = []
  /** The token before the pending ones, so that decoders that treat the first token specially see a continuation. */
  #before: number | undefined

  constructor(vocabulary: FormatVocabulary) {
    this.#vocabulary = vocabulary
    this.#tokenizer = vocabulary.tokenizer
  }

  push(ids: readonly number[] | Int32Array): string {
    let symbols = ''
    for (const id of ids) {
      const symbol = this.#vocabulary.symbolOf(id)
      if (symbol === undefined) this.#pending.push(id)
      else symbols += this.flush() + symbol
    }
    return symbols + this.#complete()
  }

  /** The text of everything pending, complete or not. */
  flush(): string {
    const text = this.#decode(this.#pending)
    this.#pending = []
    this.#before = undefined
    return withoutSymbols(text)
  }

  /** The text up to the last point where no character is left open: at most three bytes of one can be. */
  #complete(): string {
    const { length } = this.#pending
    for (let end = length; end > Math.max(0, length - 4); end--) {
      const text = this.#decode(this.#pending.slice(0, end))
      if (text.endsWith('\ufffd')) continue
      this.#before = this.#pending[end - 1]
      this.#pending = this.#pending.slice(end)
      return withoutSymbols(text)
    }
    return ''
  }

  #decode(ids: readonly number[]): string {
    if (ids.length === 0) return ''
    if (this.#before === undefined) return this.#tokenizer.decode(ids)
    return this.#tokenizer.decode([this.#before, ...ids]).slice(this.#tokenizer.decode([this.#before]).length)
  }
}

export interface ParserSetup {
  readonly vocabulary: FormatVocabulary
  readonly body: AssistantBody
  /** The marks that end a turn, in symbols. */
  readonly stop: readonly string[]
}

/**
 * Makes a parser of one response. The same parser serves whole responses and streams.
 *
 * @param prefill the symbols that the prompt already gave the response
 */
export function parseStream({ vocabulary, body, stop }: ParserSetup, prefill: string): ParseStream {
  const sink = new PartSink()
  const reader = new SymbolReader(vocabulary)
  const scanner = new EndScanner([...stop, EOS_SYMBOL], body.parser(vocabulary, sink), sink, vocabulary)
  scanner.push(prefill)
  const takeEvents = (): ParseEvent[] => {
    const { events } = sink
    sink.events = []
    return events
  }
  return {
    push(ids) {
      scanner.push(reader.push(ids))
      return takeEvents()
    },
    finish() {
      scanner.push(reader.flush())
      const termination = scanner.finish()
      return { ...result(sink, termination), events: takeEvents() }
    },
  }
}

function result(sink: PartSink, ended: Termination): ParsedResponse {
  const termination = sink.structuralFailure === undefined ? ended : 'malformed'
  const broken = sink.parts.flatMap((part) => (part.type === 'unparsed_tool_call' ? [part.error] : []))
  const failure: ParseFailure | undefined =
    termination === 'malformed'
      ? {
          kind: 'structural',
          detail: (sink.structuralFailure ?? 'the message was cut off before its end').slice(0, MAX_DETAIL),
        }
      : broken.length > 0
        ? { kind: 'content', detail: broken.join('\n').slice(0, MAX_DETAIL) }
        : undefined
  return {
    message: { role: 'assistant', content: contentOf(sink.parts) },
    termination,
    isClean: termination !== 'malformed',
    ...(failure ? { failure } : {}),
  }
}

/** Gives the symbols of a turn to its parser up to the mark that ends it, and watches what comes after. */
class EndScanner {
  readonly #anchors: Anchors
  readonly #body: BodyParser
  readonly #sink: PartSink
  readonly #vocabulary: FormatVocabulary
  #buffer = ''
  #end: 'stop' | 'eos' | undefined

  constructor(ends: readonly string[], body: BodyParser, sink: PartSink, vocabulary: FormatVocabulary) {
    this.#anchors = new Anchors(ends)
    this.#body = body
    this.#sink = sink
    this.#vocabulary = vocabulary
  }

  push(symbols: string): void {
    this.#buffer += symbols
    if (this.#end === undefined) {
      const found = this.#anchors.first(this.#buffer)
      if (found === undefined) {
        const ready = this.#buffer.length - this.#anchors.pending(this.#buffer)
        this.#body.push(this.#buffer.slice(0, ready))
        this.#buffer = this.#buffer.slice(ready)
        return
      }
      this.#body.push(this.#buffer.slice(0, found.at))
      this.#buffer = this.#buffer.slice(found.at + found.anchor.length)
      this.#end = found.anchor === EOS_SYMBOL ? 'eos' : 'stop'
      this.#body.finish(this.#end)
    }
    this.#afterEnd()
  }

  /** Plain text behind a stop string came with its last token and is ignored; a second end or a marker is not. */
  #afterEnd(): void {
    const symbolAt = this.#buffer.search(/[\ufdd0-\ufdef]/)
    const found = this.#anchors.first(this.#buffer)
    const second = found && (symbolAt < 0 || found.at <= symbolAt) ? found.anchor : this.#buffer[symbolAt]
    if (second !== undefined) {
      const spelled =
        second === EOS_SYMBOL ? 'the end-of-sequence token' : JSON.stringify(this.#vocabulary.spell(second))
      this.#sink.fail(`more after the end of the message: ${spelled}`)
    }
    const kept = this.#anchors.pending(this.#buffer)
    this.#buffer = this.#buffer.slice(this.#buffer.length - kept)
  }

  finish(): Termination {
    if (this.#end !== undefined) return this.#end
    this.#body.push(this.#buffer)
    this.#body.finish(undefined)
    return 'malformed'
  }
}
