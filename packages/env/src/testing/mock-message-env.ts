import { user, type Message } from '@selfplay/renderers'
import type { MessageEnv, MessageStepResult, StepContext } from '../message-env.js'
import type { CallOptions } from '../types.js'

/**
 * An environment from a function of the reply.
 *
 * @param step what it answers; default: reward 1 and done
 * @param initial what it begins with; default: a user message `go`
 */
export function mockMessageEnv(
  step: (reply: Message, context: StepContext) => MessageStepResult | Promise<MessageStepResult> = () => ({
    reward: 1,
    episodeDone: true,
    nextMessages: [],
  }),
  initial: readonly Message[] | ((options: CallOptions) => Promise<readonly Message[]>) = [user('go')],
): MessageEnv {
  return { initialObservation: (options) => (typeof initial === 'function' ? initial(options) : initial), step }
}

/** A promise that never settles: code that hangs and does not listen to its signal. */
export const hang = (): Promise<never> => new Promise(() => {})
