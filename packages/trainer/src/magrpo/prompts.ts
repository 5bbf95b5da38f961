import { ContextOverflowError, InvalidInputError } from '@selfplay/engine'
import { FormatterError } from '../errors.js'
import type { Seat } from './agents.js'
import { textOf, type Message } from '@selfplay/renderers'
import type { Formatter, Prompt, ShownPrompt, Task } from './types.js'

/** Where a prompt stands, for messages. */
export interface PromptPlace {
  readonly rowIndex: number
  /** From 1. */
  readonly turn: number
  readonly agent: number
}

const where = ({ rowIndex, turn, agent }: PromptPlace) => `row ${rowIndex}, turn ${turn}, agent ${agent}`

export const isPrompt = (value: unknown): value is Prompt =>
  typeof value === 'string' ||
  (Array.isArray(value) &&
    value.every(
      (message: unknown) =>
        typeof message === 'object' &&
        message !== null &&
        typeof (message as Message).role === 'string' &&
        ['string', 'object'].includes(typeof (message as Message).content),
    ))

/** A description of anything for an error message. */
export function describeValue(value: unknown): string {
  if (value === null || value === undefined || typeof value === 'number') return String(value)
  if (Array.isArray(value)) return `a list of ${value.length}`
  return typeof value === 'string' ? JSON.stringify(value.slice(0, 60)) : `a value of type ${typeof value}`
}

/** The formatter of an agent; undefined shows prompts as they are. */
export function formatterOf<Row>(formatters: Task<Row>['formatters'], agent: number): Formatter<Row> | undefined {
  return typeof formatters === 'function' ? formatters : formatters?.[agent]
}

/**
 * Runs an agent's formatter.
 *
 * @throws FormatterError when it throws or returns something else than text or messages.
 */
export function formatPrompt<Row>(
  formatter: Formatter<Row> | undefined,
  args: Parameters<Formatter<Row>>[0],
  rowIndex: number,
): Prompt {
  if (!formatter) return args.prompt
  const place = { rowIndex, turn: args.turn, agent: args.agent }
  let prompt: unknown
  try {
    prompt = formatter(args)
  } catch (cause) {
    throw new FormatterError(`the formatter threw at ${where(place)}: ${String(cause)}`, { ...place }, { cause })
  }
  if (isPrompt(prompt)) return prompt
  throw new FormatterError(
    `the formatter must return text or a list of {role, content}, got ${describeValue(prompt)} at ${where(place)}`,
    { ...place },
  )
}

/**
 * A prompt as an agent is shown it: ids and text.
 *
 * Text is encoded by the agent's tokenizer; messages are laid out by its renderer, and their text is the decoded ids.
 * @throws InvalidInputError for an empty prompt, or messages without a renderer; ContextOverflowError when no room is left
 *   for an answer.
 */
export function encodePrompt(prompt: Prompt, seat: Seat, contextLength: number, place: PromptPlace): ShownPrompt {
  if (!seat.codec) {
    const text =
      typeof prompt === 'string' ? prompt : prompt.map((message) => `${message.role}: ${textOf(message)}`).join('\n')
    return { text, chat: false, tokens: new Int32Array(0) }
  }
  const tokens = Int32Array.from(typeof prompt === 'string' ? seat.codec.encode(prompt) : render(prompt, seat, place))
  if (tokens.length === 0) {
    throw new InvalidInputError(`the prompt is empty at ${where(place)}: expected at least one token`, { ...place })
  }
  if (tokens.length >= contextLength) {
    throw new ContextOverflowError(
      `the prompt has ${tokens.length} tokens at ${where(place)}, and the model's context of ${contextLength} leaves no ` +
        'room for an answer: shorten it',
      { ...place, length: tokens.length, contextLength },
    )
  }
  const chat = typeof prompt !== 'string'
  return { text: chat ? seat.codec.decode(tokens) : prompt, chat, tokens }
}

function render(messages: readonly Message[], seat: Seat, place: PromptPlace): Int32Array {
  if (seat.renderer) return seat.renderer.generationPrompt(messages)
  throw new InvalidInputError(
    `the prompt at ${where(place)} is a list of messages, but the agent has no renderer: give it one, or a text prompt`,
    { ...place },
  )
}
