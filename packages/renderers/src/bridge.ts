import { InvalidMessagesError, UnsupportedConversationError } from './errors.js'
import { UPCOMING, type Conversation, type Layout } from './layout.js'
import type { Message } from './messages.js'
import type { BridgeOptions } from './renderer.js'
import type { Segment, Span } from './vocabulary.js'

/** How many ids at the end of a transcript are looked at for a stop string. */
const TAIL = 32

/** The ids that follow `transcript` up to the next sample. See `Renderer.bridge`. */
export function bridgeIds<O>(
  layout: Layout<O>,
  transcript: readonly number[],
  newMessages: readonly Message[],
  options: BridgeOptions,
): number[] {
  if (newMessages.length === 0)
    throw new InvalidMessagesError(
      'bridge: expected at least one new message, got none; the transcript already ends a turn',
    )
  const history = options.history ?? [{ role: 'user', content: '' }, UPCOMING]
  if (history.at(-1)?.role !== 'assistant')
    throw new InvalidMessagesError('bridge: expected history to end with the assistant message that was sampled')
  const conversation = bridged(layout, history, newMessages, options)
  const sampledAt = conversation.messages.length - newMessages.length - 2
  const { closing, written } = close(layout, conversation, sampledAt, transcript)
  const spans: Span[] = [{ segments: closing, cut: true }]
  for (let index = sampledAt + 1; index < conversation.messages.length - 1; index++)
    spans.push(...layout.turnSpans(conversation, index))
  spans.push(...layout.promptEnd(conversation))
  if (written === '') return layout.vocabulary.encode(spans).ids
  return layout.vocabulary.encode(withoutWritten(layout, spans, written)).ids
}

/** The conversation as far as it is known. Only what is new is checked: the history stands in ids already. */
function bridged<O>(
  layout: Layout<O>,
  history: readonly Message[],
  newMessages: readonly Message[],
  options: BridgeOptions,
): Conversation {
  if (newMessages.some((message) => message.role === 'assistant'))
    throw new InvalidMessagesError(
      'bridge: new messages come from outside; an assistant message is sampled, or rendered',
    )
  const { messages, synthetic, produced } = layout.conversation([...history, ...newMessages], options.tools ?? [], true)
  return { messages, tools: options.tools ?? [], synthetic, produced }
}

/**
 * What closes the sampled turn: nothing that the sampler already wrote. `written` is text of the *next* turn that a
 * stop string made the sampler write.
 */
function close<O>(
  layout: Layout<O>,
  conversation: Conversation,
  index: number,
  transcript: readonly number[],
): { closing: Segment[]; written: string } {
  const { vocabulary, format } = layout
  const end = vocabulary.segments(layout.turn(conversation, index, false).end)
  const last = transcript.at(-1)
  const ended = format.stop.some((marker) => vocabulary.idOf(marker) === last && last !== undefined)
  if (ended) return { closing: layout.splitEnd(end)[1], written: '' }
  const textStops = format.stop.filter((entry) => !format.markers.includes(entry))
  if (textStops.length === 0) return { closing: end, written: '' }
  const tail = vocabulary.tokenizer.decode(transcript.slice(-TAIL))
  const stop = textStops.find((entry) => tail.trimEnd().endsWith(entry.trimEnd()))
  return { closing: end, written: stop === undefined ? '' : tail.slice(tail.lastIndexOf(stop)) }
}

/** Spans less the text that the sampler wrote ahead of them. */
function withoutWritten<O>(layout: Layout<O>, spans: readonly Span[], written: string): Span[] {
  const segments: Segment[] = spans.flatMap((span) => span.segments)
  let text = ''
  let at = 0
  while (at < segments.length && segments[at]!.text !== undefined) text += segments[at++]!.text
  // The last token of a stop string may hold blanks behind it, with which the next message then begins.
  const ahead = text.startsWith(written) ? written : written.trimEnd()
  if (!text.startsWith(ahead))
    throw new UnsupportedConversationError(
      `${layout.format.name}: the model has already begun the next turn with ${JSON.stringify(written)}, and the new messages begin otherwise; render the conversation anew`,
      { format: layout.format.name },
    )
  return [{ segments: [{ text: text.slice(ahead.length) }, ...segments.slice(at)], cut: true }]
}
