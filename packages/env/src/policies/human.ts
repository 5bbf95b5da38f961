import { partsOf, type ContentPart, type Message } from '@selfplay/renderers'
import { InputClosedError } from '../errors.js'
import { onAbort } from '../on-abort.js'
import type { MessagePolicy } from './policy.js'

/** Where a person reads and types, for example `process.stdin` and `process.stdout`. */
export interface Terminal {
  readonly input: AsyncIterable<Uint8Array | string>
  readonly output: { write(text: string): unknown }
}

/**
 * A person at a terminal. Shows what is new, and takes a line as the reply; a line that ends in a backslash goes on in the next.
 * Messages are shown without their control characters.
 *
 * The policy throws InputClosedError when the input ends, and the signal's reason when aborted.
 */
export function human({ input, output }: Terminal): MessagePolicy {
  const lines = lineReader(input)
  return async ({ newMessages, legalMoves, signal }) => {
    for (const message of newMessages) output.write(`\n${message.role}> ${printable(shown(message))}\n`)
    if (legalMoves) output.write(`(moves: ${printable(legalMoves.join('  '))})\n`)
    let reply = ''
    for (;;) {
      output.write(reply === '' ? '\nyou> ' : '...> ')
      const line = await lines(signal)
      if (!line.endsWith('\\')) return reply + line
      reply += `${line.slice(0, -1)}\n`
    }
  }
}

const shown = (message: Pick<Message, 'content'>): string => partsOf(message).map(partText).join('')

function partText(part: ContentPart): string {
  if (part.type === 'text') return part.text
  if (part.type === 'thinking') return `(thinks: ${part.thinking})\n`
  return part.type === 'tool_call' ? `(calls ${part.name} ${part.arguments})` : `(unreadable call: ${part.rawText})`
}

/** Text without control characters and direction marks, which could write over the screen or hide in it. */
export const printable = (text: string): string =>
  // eslint-disable-next-line no-control-regex
  text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, '')

/** Reads lines one at a time, as they are asked for. */
function lineReader(input: Terminal['input']): (signal: AbortSignal) => Promise<string> {
  const chunks = input[Symbol.asyncIterator]()
  const decoder = new TextDecoder()
  let buffer = ''
  let ended = false
  let pending: Promise<IteratorResult<Uint8Array | string>> | undefined
  return async (signal) => {
    for (;;) {
      const newline = buffer.indexOf('\n')
      if (newline >= 0 || (ended && buffer !== '')) {
        const end = newline >= 0 ? newline : buffer.length
        const line = buffer.slice(0, end).replace(/\r$/, '')
        buffer = buffer.slice(end + 1)
        return line
      }
      if (ended) throw new InputClosedError('the input ended before a reply was typed')
      pending ??= chunks.next() // kept over an abort, so that nothing typed is lost
      const next = await unlessAborted(pending, signal)
      pending = undefined
      ended = next.done === true
      if (!next.done)
        buffer += typeof next.value === 'string' ? next.value : decoder.decode(next.value, { stream: true })
    }
  }
}

function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted()
  return new Promise((resolve, reject) => {
    const release = onAbort(signal, () => reject(signal.reason as Error))
    promise.then(resolve, reject).finally(release)
  })
}
