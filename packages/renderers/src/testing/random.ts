import { assistant, text, thinking, toolCall, user, type ContentPart, type Message } from '../messages.js'

/** Numbers in [0, 1), the same for the same seed (mulberry32). */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296
  }
}

const PIECES = [
  'a', 'the ', ' in', '12', '3', '\n', '\n\n', ' ', '\t', '.', '{"', '"}', ':', '<', '/', '|', '>', 'é', '漢', '👩‍👩‍👧', '\u00a0',
  'System', 'User:', 'think', '```', '\\', '“”', '\r\n', '\ufffd', '\ufeff', '\ufdd0',
] as const // prettier-ignore

/** Text of up to 12 pieces that is hard on renderers: blanks, line breaks, brackets, several scripts, `also` what is given. */
export function randomText(random: () => number, also: readonly string[] = []): string {
  const pieces = [...PIECES, ...also]
  return Array.from({ length: Math.floor(random() * 13) }, () => pieces[Math.floor(random() * pieces.length)]!).join('')
}

/** An assistant message with some of: reasoning, text, tool calls. */
export function randomAnswer(random: () => number, also: readonly string[] = []): Message {
  const parts: ContentPart[] = []
  if (random() < 0.4) parts.push(thinking(randomText(random, also)))
  if (random() < 0.8) parts.push(text(randomText(random, also)))
  const calls = random() < 0.3 ? 1 + Math.floor(random() * 2) : 0
  for (let k = 0; k < calls; k++)
    parts.push(toolCall(`tool_${Math.floor(random() * 9)}`, { query: randomText(random, also), n: k + 0.5 }))
  return assistant(parts)
}

/** A conversation of 1 to 3 questions, all but the last answered in plain text, and an answer to the last. */
export function randomConversation(random: () => number, also: readonly string[] = []): Message[] {
  const messages: Message[] = []
  const questions = 1 + Math.floor(random() * 3)
  for (let k = 0; k < questions; k++) {
    messages.push(user(randomText(random, also)))
    messages.push(k < questions - 1 ? assistant(randomText(random, also)) : randomAnswer(random, also))
  }
  return messages
}
