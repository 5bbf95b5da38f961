import type { ContentPart, Message, ToolSpec } from './messages.js'
import type { Markup } from './markup.js'
import type { Tokenizer } from './tokenizer.js'

/** Which tokens of a conversation carry loss. Message headers carry none except in `all_tokens`; BOS never does. */
export const TRAIN_ON_WHAT = [
  /** The last message, if it is an assistant message. */
  'last_assistant_message',
  /** Every assistant message after the last user message. */
  'last_assistant_turn',
  'all_assistant_messages',
  /** What every message says, whoever says it. */
  'all_messages',
  /** Everything after BOS, headers included. */
  'all_tokens',
  'all_user_and_system_messages',
  /** The messages whose `trainable` is true; every message must then have the field. */
  'customized',
] as const
export type TrainOnWhat = (typeof TRAIN_ON_WHAT)[number]

/**
 * How a response ended. `stop`: with the format's own stop token or string. `eos`: with the tokenizer's
 * end-of-sequence token. `malformed`: neither (cut off by length), or with something after the end.
 */
export type Termination = 'stop' | 'eos' | 'malformed'

/** Why a response cannot be used as it is: its structure (no clean end, a stray marker), or a tool call in it. */
export interface ParseFailure {
  readonly kind: 'structural' | 'content'
  /** At most 16,384 characters. */
  readonly detail: string
}

export interface ParsedResponse {
  /** Always an assistant message; what could be read of a malformed response is in it too. */
  readonly message: Message
  readonly termination: Termination
  /** The response ended with `stop` or `eos`. */
  readonly isClean: boolean
  readonly failure?: ParseFailure
}

/** What a streaming parser tells. `index` counts the parts of the message; the deltas of one index join to its part. */
export type ParseEvent =
  | { readonly type: 'text'; readonly index: number; readonly delta: string }
  | { readonly type: 'thinking'; readonly index: number; readonly delta: string }
  | { readonly type: 'part'; readonly index: number; readonly part: ContentPart }

/** Parses a response while it is sampled. However the ids are cut into pushes, the result is that of `parse`. */
export interface ParseStream {
  push(ids: readonly number[] | Int32Array): ParseEvent[]
  /** Ends the response: what was held back, and the whole. */
  finish(): ParsedResponse & { readonly events: ParseEvent[] }
}

export interface RenderOptions {
  /** Tools that the model may call, declared where the format declares them. Default none. */
  readonly tools?: readonly ToolSpec[]
}

export interface PromptOptions extends RenderOptions {
  /** The beginning of the answer, put after what the format itself begins answers with. A string is plain text. */
  readonly prefill?: string | Markup
}

export interface ParseOptions {
  /** The `prefill` that the prompt ended with; the message then contains it. */
  readonly prefill?: string | Markup
  /**
   * The ids that were sampled from. Only formats need them that begin some answers in the prompt and others not; without
   * them the format's usual beginning is assumed.
   */
  readonly prompt?: readonly number[] | Int32Array
}

export interface SupervisedOptions extends RenderOptions {
  /** Default `last_assistant_message`. */
  readonly trainOn?: TrainOnWhat
}

/** Ids of a conversation, int32 [T], and the weight of each as a target, float32 [T]: 1 trained, 0 not. */
export interface SupervisedExample {
  readonly tokens: Int32Array
  readonly weights: Float32Array
}

/** Messages to token ids and back, for one chat format and one tokenizer. Made by `getRenderer`. */
export interface Renderer {
  readonly name: string
  readonly tokenizer: Tokenizer
  /** What a sampler must stop at: ids, or strings for formats whose turns are delimited by text. */
  readonly stop: readonly (number | string)[]
  /** All ids that the format uses as markers. No message text becomes one of them. */
  readonly markerIds: ReadonlySet<number>
  /**
   * Whether the published format re-renders history so that prompt k+1 starts with prompt k + response k, whatever the
   * turns held. Found by rendering, not declared.
   */
  readonly extendsHistory: boolean
  /** The prompt for the next assistant message, int32 [P]. @throws InvalidMessagesError, UnsupportedConversationError */
  generationPrompt(messages: readonly Message[], options?: PromptOptions): Int32Array
  /**
   * One training example of a conversation. If the last message is the assistant's, the example is its generation
   * prompt followed by exactly what a sampler would emit, stop included.
   */
  supervisedExample(messages: readonly Message[], options?: SupervisedOptions): SupervisedExample
  /**
   * The examples that train every chosen assistant message after the prompt it is sampled from: one for formats that
   * extend history, otherwise one per message. Takes the three assistant modes; default `last_assistant_turn`.
   */
  supervisedExamples(messages: readonly Message[], options?: SupervisedOptions): SupervisedExample[]
  /** Reads sampled ids, stop included. Never throws on model output. */
  parse(ids: readonly number[] | Int32Array, options?: ParseOptions): ParsedResponse
  parseStream(options?: ParseOptions): ParseStream
  /**
   * An assistant message as it comes back from `parse` after it was written as the last message of a supervised example:
   * neighbouring text joined, blanks trimmed where the format trims, ids of calls as the format writes them.
   */
  normalise(message: Message): Message
  /**
   * Continues a transcript from the very ids that were sampled: `transcript` (prompt + sampled ids), then what the
   * format puts between, then `newMessages` and the next generation prompt. The result starts with `transcript`.
   *
   * @throws UnsupportedConversationError when the format cannot continue with these messages
   */
  bridge(
    transcript: readonly number[] | Int32Array,
    newMessages: readonly Message[],
    options?: BridgeOptions,
  ): Int32Array
}

export interface BridgeOptions extends PromptOptions {
  /** The messages that `transcript` stands for, for formats that look back (names of called tools). Default none. */
  readonly history?: readonly Message[]
}
