import { InvalidMessagesError } from './errors.js'
import { sameMessage, thinkingOf, type Message } from './messages.js'
import { onlyKeys } from './options.js'
import type { ParsedResponse, PromptOptions, Renderer } from './renderer.js'
import { isPrefix } from './supervised.js'

/**
 * Why a prompt does not start with the prompt before it and what was sampled then:
 * `truncated` (messages were taken away), `system_changed`, `rewritten` (an earlier message differs),
 * `thinking_dropped`, `retokenised` (the same text in other tokens), `rerendered` (the format writes history otherwise),
 * `unbridgeable` (the format cannot continue with these messages).
 */
export type BreakReason =
  'truncated' | 'system_changed' | 'rewritten' | 'thinking_dropped' | 'retokenised' | 'rerendered' | 'unbridgeable'

/** A place where a transcript had to start anew: `turn` counts prompts from 0. */
export interface HistoryBreak {
  readonly turn: number
  readonly reason: BreakReason
}

export interface TranscriptOptions extends PromptOptions {
  /**
   * `sampled` (default) continues from the ids that were sampled; `template` renders the whole conversation as the
   * published template does, each time.
   */
  readonly history?: 'sampled' | 'template'
}

/** One conversation as a model saw it: the prompts, and the ids that were sampled after each. */
export interface Transcript {
  /**
   * The prompt for the next assistant message, int32 [P].
   *
   * @param messages the whole conversation so far. While it only grows, and with `history: 'sampled'`, the prompt starts
   *   with the prompt before and the ids sampled then; otherwise a break is recorded.
   */
  prompt(messages: readonly Message[]): Int32Array
  /** Records the ids that were sampled after the last prompt, and reads them. */
  sampled(ids: readonly number[] | Int32Array): ParsedResponse
  readonly breaks: readonly HistoryBreak[]
}

interface Turn {
  readonly messages: readonly Message[]
  readonly prompt: Int32Array
  sampled?: { readonly ids: Int32Array; readonly message: Message }
}

/** Starts a transcript. @throws InvalidMessagesError when prompts and samples do not alternate */
export function createTranscript(renderer: Renderer, options: TranscriptOptions = {}): Transcript {
  onlyKeys('createTranscript', options, ['history', 'tools', 'prefill'])
  const { history = 'sampled', ...rest } = options
  const prefill = options.prefill === undefined ? {} : { prefill: options.prefill }
  if (history !== 'sampled' && history !== 'template')
    throw new InvalidMessagesError(`history: expected 'sampled' or 'template', got ${JSON.stringify(history)}`)
  const breaks: HistoryBreak[] = []
  let last: Turn | undefined
  let turns = 0
  return {
    breaks,
    prompt(messages) {
      const next = nextPrompt(renderer, last, messages, history, rest)
      if (next.reason) breaks.push({ turn: turns, reason: next.reason })
      last = { messages: [...messages], prompt: next.prompt }
      turns++
      return next.prompt
    },
    sampled(ids) {
      if (!last || last.sampled) throw new InvalidMessagesError('transcript: expected prompt() before each sampled()')
      const parsed = renderer.parse(ids, { ...prefill, prompt: last.prompt })
      last.sampled = { ids: Int32Array.from(ids), message: parsed.message }
      return parsed
    },
  }
}

function nextPrompt(
  renderer: Renderer,
  last: Turn | undefined,
  messages: readonly Message[],
  history: 'sampled' | 'template',
  options: PromptOptions,
): { prompt: Int32Array; reason?: BreakReason } {
  const render = () => renderer.generationPrompt(messages, options)
  if (!last?.sampled) return { prompt: render() }
  const seen = [...last.messages, last.sampled.message]
  const transcript = Int32Array.from([...last.prompt, ...last.sampled.ids])
  const changed = changeReason(seen, messages)
  if (changed) return { prompt: render(), reason: changed }
  if (history === 'template') {
    const prompt = render()
    return isPrefix(transcript, prompt)
      ? { prompt }
      : { prompt, reason: renderReason(renderer, seen, transcript, prompt) }
  }
  try {
    return { prompt: renderer.bridge(transcript, messages.slice(seen.length), { ...options, history: seen }) }
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'unsupported_conversation')) throw error
    return { prompt: render(), reason: 'unbridgeable' }
  }
}

/** How the conversation changed beyond growing. */
function changeReason(seen: readonly Message[], messages: readonly Message[]): BreakReason | undefined {
  const at = seen.findIndex((message, k) => messages[k] !== undefined && !sameMessage(message, messages[k]))
  if (at === 0 && seen[0]!.role === 'system') return 'system_changed'
  if (at >= 0) return messages.length < seen.length ? 'truncated' : 'rewritten'
  return messages.length <= seen.length ? 'truncated' : undefined
}

function renderReason(
  renderer: Renderer,
  seen: readonly Message[],
  transcript: Int32Array,
  prompt: Int32Array,
): BreakReason {
  const { tokenizer } = renderer
  if (tokenizer.decode(prompt).startsWith(tokenizer.decode(transcript))) return 'retokenised'
  const thought = thinkingOf(seen.at(-1)!)
  return thought !== '' && !tokenizer.decode(prompt).includes(thought) ? 'thinking_dropped' : 'rerendered'
}
