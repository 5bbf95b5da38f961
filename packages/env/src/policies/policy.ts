import type { Message, Termination, ToolSpec } from '@selfplay/renderers'
import { EnvInputError } from '../errors.js'
import type { PlayerView } from '../message-env.js'
import type { Action } from '../types.js'

/** What a policy is asked: to say the next message of a conversation. */
export interface MessageTurn extends PlayerView {
  /** The whole conversation. The last message is not the policy's own. */
  readonly messages: readonly Message[]
  /** What was said since the policy's own last message. */
  readonly newMessages: readonly Message[]
  /** Turns of this policy in this episode before. */
  readonly turn: number
  readonly tools: readonly ToolSpec[]
  /** The same object at every turn of one episode, and another one in another. */
  readonly episode: object
  /** Another one at each turn; absent where the whole was given no seed. */
  readonly seed?: number
  readonly signal: AbortSignal
}

/** A reply with the tokens that it was sampled as. */
export interface SampledReply {
  readonly message: Message
  readonly termination: Termination
  /** The prompt, int32 [P]. */
  readonly observation: Int32Array
  readonly action: Action
}

export type PolicyReply = string | Message | SampledReply

/**
 * Takes the assistant's part in a conversation: a script, a person, a model. One policy may serve many episodes at once; what it
 * remembers of one, it keeps by `turn.episode`.
 */
export type MessagePolicy = (turn: MessageTurn) => PolicyReply | Promise<PolicyReply>

export const isSampled = (reply: PolicyReply): reply is SampledReply => typeof reply === 'object' && 'action' in reply

/** What a reply says, as an assistant message. @throws EnvInputError when it is none */
export function messageOf(reply: PolicyReply): Message {
  if (typeof reply === 'string') return { role: 'assistant', content: reply }
  const message = typeof reply === 'object' && reply !== null && isSampled(reply) ? reply.message : (reply as Message)
  if (message?.role !== 'assistant')
    throw new EnvInputError(
      `a policy replies with a text or an assistant message, got ${JSON.stringify(reply)?.slice(0, 80) ?? typeof reply}`,
    )
  return message
}

/** Whether a reply came to its end; a sampled one may have been cut off, or lack a clean end. */
export function endOf(reply: PolicyReply): { clean: boolean; termination: Termination; cutOff: boolean } {
  if (typeof reply === 'string' || !isSampled(reply)) return { clean: true, termination: 'stop', cutOff: false }
  const cutOff = reply.action.stopReason === 'length'
  return { clean: !cutOff && reply.termination !== 'malformed', termination: reply.termination, cutOff }
}
