import type { ContentPart } from '../messages.js'
import type { ParseEvent } from '../renderer.js'
import type { Markup } from '../markup.js'
import type { FormatVocabulary } from '../vocabulary.js'

/**
 * What becomes of the reasoning of an assistant turn when it is written:
 * `keep` writes it if there is some, `drop` leaves it out, `frame` writes the block even if it is empty,
 * `blank` writes an empty block whatever there was.
 */
export type ThinkingPolicy = 'keep' | 'drop' | 'frame' | 'blank'

/**
 * The grammar of what an assistant says inside its turn. Rendering, parsing and normalising come from one declaration:
 * see `inlineBody` and `channelBody`, which make these from plain data.
 */
export interface AssistantBody {
  readonly hasThinking: boolean
  readonly hasToolCalls: boolean
  /** @throws UnsupportedConversationError for parts that the grammar cannot write */
  render(parts: readonly ContentPart[], thinking: ThinkingPolicy): Markup
  /** The parts as they come back from parsing what was rendered. */
  normalise(parts: readonly ContentPart[], thinking: ThinkingPolicy): ContentPart[]
  parser(vocabulary: FormatVocabulary, sink: PartSink): BodyParser
}

/** Reads the symbols of one turn, without its end. */
export interface BodyParser {
  push(symbols: string): void
  /** @param end how the turn ended; `undefined` when it was cut off */
  finish(end: 'stop' | 'eos' | undefined): void
}

/** Collects the parts of a message and tells what is new. */
export class PartSink {
  readonly parts: ContentPart[] = []
  events: ParseEvent[] = []
  structuralFailure: string | undefined

  text(delta: string): void {
    this.#grow('text', delta)
  }

  thinking(delta: string): void {
    this.#grow('thinking', delta)
  }

  part(part: ContentPart): void {
    this.parts.push(part)
    this.events.push({ type: 'part', index: this.parts.length - 1, part })
  }

  fail(detail: string): void {
    this.structuralFailure ??= detail
  }

  #grow(type: 'text' | 'thinking', delta: string): void {
    if (delta === '') return
    const index = this.parts.length - 1
    const last = this.parts[index]
    if (type === 'text' && last?.type === 'text') this.parts[index] = { type, text: last.text + delta }
    else if (type === 'thinking' && last?.type === 'thinking')
      this.parts[index] = { type, thinking: last.thinking + delta }
    else this.parts.push(type === 'text' ? { type, text: delta } : { type, thinking: delta })
    this.events.push({ type, index: this.parts.length - 1, delta })
  }
}
