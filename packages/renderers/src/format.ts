import type { z } from 'zod'
import { ChatFormatError } from './errors.js'
import type { AssistantBody, ThinkingPolicy } from './grammar/body.js'
import { inlineBody } from './grammar/inline.js'
import type { Markup } from './markup.js'
import type { Message, Role, ToolSpec } from './messages.js'

/** What a format may look at when it describes a conversation. */
export interface ConversationContext<Options> {
  readonly messages: readonly Message[]
  readonly tools: readonly ToolSpec[]
  readonly options: Options
}

/** What a format may look at when it describes one turn. */
export interface TurnContext<Options> extends ConversationContext<Options> {
  readonly message: Message
  readonly role: Role
  /** All text of the message. */
  readonly text: string
  /** Where the message stands in `messages`, which includes the assistant message that is about to be sampled. */
  readonly index: number
  readonly previous: Message | undefined
  readonly next: Message | undefined
  /** Index of the last user message, -1 without one. */
  readonly lastUserIndex: number
  /** This is the assistant message that is about to be sampled, or that an example is made for. */
  readonly produced: boolean
  /** The message is the format's own default and not part of the conversation as given. */
  readonly synthetic: boolean
}

/** One turn. Of an assistant turn the header is what a generation prompt ends with, and the body comes from `ChatFormat.body`. */
export interface Turn {
  readonly header: Markup
  /** What the message says. Default: its text. Not used for assistant turns. */
  readonly body?: Markup
  /** From the end of the body to the next header. The stop marker in it, if any, belongs to what a model writes. */
  readonly end: Markup
  /** The beginning of the body that the prompt already gives. */
  readonly prefill?: Markup
  /** What becomes of the reasoning in an assistant turn. Default `keep`. */
  readonly thinking?: ThinkingPolicy
}

/**
 * The description of a chat format. Generation prompt, supervised example and weights, parser, stop tokens, injection
 * guard and bridge are all derived from it.
 */
export interface ChatFormat<Options = unknown> {
  /** The name in the registry. Contributed formats put their owner before it: `acme/smol`. */
  readonly name: string
  /** Tokens that delimit the conversation. The tokenizer must hold them; no text becomes one. */
  readonly markers: readonly string[]
  /** Tokens that are used where the tokenizer holds them and are plain text where it does not. */
  readonly softMarkers?: readonly string[]
  /** What ends an assistant turn: markers, or text for formats that delimit by text. */
  readonly stop: readonly string[]
  /** Further tokens that mean the end of a sequence, beside the tokenizer's own. */
  readonly eos?: readonly string[]
  /** Text that no message may contain, because it would read as the start of another turn. */
  readonly delimiters?: readonly string[]
  /**
   * Encodes every body apart from its header. Default: only those of the assistant, since a published template is
   * encoded as one text. Formats that delimit by text want it, or a token could reach over the end of a stop string.
   */
  readonly cutBodies?: boolean
  /** The token before everything: one of `markers`, or `'tokenizer'` for the one that the tokenizer names, if it does. */
  readonly bos?: string
  /** Schema of the options that `getRenderer` takes for this format. Without one it takes none. */
  readonly options?: z.ZodType<Options>
  /** Stands between BOS and the first turn. */
  readonly begin?: (context: ConversationContext<Options>) => Markup
  /** The text of the system message where the conversation does not begin with one; `undefined` for no such turn. */
  readonly defaultSystem?: (context: ConversationContext<Options>) => string | undefined
  /** Throws an UnsupportedConversationError for conversations that the format cannot write. */
  readonly check?: (context: ConversationContext<Options>) => void
  readonly turn: (context: TurnContext<Options>) => Turn
  /** The grammar of assistant turns. Default: plain text. */
  readonly body?: AssistantBody
}

/**
 * Checks the description of a chat format and completes it.
 *
 * ```ts
 * const smol = defineChatFormat({
 *   name: 'acme/smol',
 *   markers: ['<|im_start|>', '<|im_end|>'],
 *   stop: ['<|im_end|>'],
 *   turn: ({ role }) => ({ header: markup`<|im_start|>${role}\n`, end: markup`<|im_end|>\n` }),
 * })
 * ```
 *
 * @throws ChatFormatError when the description contradicts itself
 */
export function defineChatFormat<Options = Record<string, never>>(
  description: ChatFormat<Options>,
): ChatFormat<Options> & { readonly body: AssistantBody } {
  const { name, markers, softMarkers = [], stop, bos } = description
  const refuse = (problem: string): never => {
    throw new ChatFormatError(`chat format ${JSON.stringify(name)}: ${problem}`, { format: name })
  }
  if (!/^[a-z0-9][\w.-]*(\/[\w.-]+)?$/i.test(name)) refuse('expected a name like "smol" or "acme/smol"')
  if (stop.length === 0) refuse('expected at least one entry in stop; without one a turn has no end')
  const all = [...markers, ...softMarkers]
  if (all.some((marker) => marker === '')) refuse('a marker is empty')
  const twice = all.find((marker, k) => all.indexOf(marker) !== k)
  if (twice !== undefined) refuse(`${JSON.stringify(twice)} is listed twice`)
  if (bos !== undefined && bos !== 'tokenizer' && !markers.includes(bos)) refuse('expected bos to be one of markers')
  const textStop = stop.find((entry) => !markers.includes(entry))
  if (textStop !== undefined && !(description.delimiters ?? []).includes(textStop))
    refuse(
      `the stop ${JSON.stringify(textStop)} is neither in markers nor in delimiters; text could contain it and forge an end`,
    )
  return { ...description, body: description.body ?? inlineBody() }
}
