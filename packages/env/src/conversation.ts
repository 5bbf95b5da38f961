import { didYouMean, sameMessage, type Message } from '@selfplay/renderers'
import { EnvContractError, FullHistoryReturnedError } from './errors.js'
import type { MessageEnv, MessageStepResult } from './message-env.js'
import { STOP_REASONS, isStopReason } from './stop-reason.js'

/** The transcript of one episode of a message environment. It belongs to the framework; the environment adds to it. */
export class Conversation {
  readonly #envName: string
  readonly #messages: Message[]
  #turn = 0

  /** @throws EnvContractError when the first messages cannot begin a conversation */
  constructor(env: MessageEnv, initial: readonly Message[]) {
    const { name } = env.constructor
    this.#envName = name === 'Object' || name === '' ? 'MessageEnv' : name
    const where = `${this.#envName}.initialObservation`
    checkMessages(initial, where)
    if (initial.length === 0) throw new EnvContractError(`${where}: expected at least one message, got none`)
    if (initial.at(-1)!.role === 'assistant')
      throw new EnvContractError(`${where}: the last message is the assistant's; the policy would answer itself`)
    this.#messages = [...initial]
  }

  get messages(): readonly Message[] {
    return this.#messages
  }

  /** Replies so far. */
  get turn(): number {
    return this.#turn
  }

  reply(message: Message): void {
    this.#messages.push(message)
    this.#turn++
  }

  /** Messages of the framework itself, such as the request to try again. */
  say(...messages: readonly Message[]): void {
    this.#messages.push(...messages)
  }

  /**
   * Checks what the environment answered to the last reply, and takes it into the transcript.
   *
   * @returns the messages that are new to the policy
   * @throws EnvContractError, FullHistoryReturnedError
   */
  take(result: MessageStepResult): readonly Message[] {
    const where = `${this.#envName}.step (turn ${this.#turn - 1})`
    checkResult(result, where)
    const { nextMessages, replaceTranscript, episodeDone } = result
    this.#checkNew(nextMessages, where)
    if (replaceTranscript) {
      checkMessages(replaceTranscript, where)
      this.#messages.splice(0, this.#messages.length, ...replaceTranscript)
    }
    const last = nextMessages.at(-1) ?? replaceTranscript?.at(-1)
    if (!episodeDone && (last === undefined || last.role === 'assistant'))
      throw new EnvContractError(
        `${where}: the episode goes on and nothing is said to the policy; return at least one message in nextMessages, or episodeDone: true`,
      )
    this.#messages.push(...nextMessages)
    return replaceTranscript ? [...this.#messages] : nextMessages
  }

  #checkNew(next: readonly Message[], where: string): void {
    const seen = this.#messages
    const withoutReply = seen.length - 1
    const repeats = (length: number) =>
      next.length >= length && seen.every((message, k) => k >= length || sameMessage(message, next[k]!))
    if (repeats(seen.length) || (withoutReply > 1 && repeats(withoutReply)))
      throw new FullHistoryReturnedError(
        `${where}: nextMessages begins with the ${seen.length} messages of the conversation so far. Return only what is new (the framework keeps the transcript and has the reply already), or use replaceTranscript`,
        { transcript: seen.length, nextMessages: next.length },
      )
    const own = next.findIndex((message) => message.role === 'assistant')
    if (own >= 0)
      throw new EnvContractError(
        `${where}: nextMessages.${own} is from the assistant; the reply is in the transcript already, and only the policy speaks for it`,
      )
  }
}

/** What a step may return; a record, so that the compiler keeps it whole. */
const RESULT: Readonly<Record<keyof MessageStepResult, true>> = {
  reward: true,
  episodeDone: true,
  nextMessages: true,
  replaceTranscript: true,
  stopReason: true,
  nextStop: true,
  metrics: true,
  logs: true,
}
const RESULT_NAMES = Object.keys(RESULT)

const ROLES: ReadonlySet<unknown> = new Set(['system', 'user', 'assistant', 'tool'])

function checkMessages(messages: readonly Message[], where: string): void {
  if (!Array.isArray(messages))
    throw new EnvContractError(`${where}: expected a list of messages, got ${typeof messages}`)
  messages.forEach((message: Message | undefined, index) => {
    const fits = ROLES.has(message?.role) && (typeof message?.content === 'string' || Array.isArray(message?.content))
    if (!fits)
      throw new EnvContractError(
        `${where}: message ${index} is not {role: 'system' | 'user' | 'assistant' | 'tool', content: string | parts}`,
        { index },
      )
  })
}

function checkResult(result: MessageStepResult, where: string): void {
  if (typeof result !== 'object' || result === null)
    throw new EnvContractError(`${where}: expected {reward, episodeDone, nextMessages}, got ${String(result)}`)
  for (const key of Object.keys(result))
    if (!Object.hasOwn(RESULT, key))
      throw new EnvContractError(`${where}: a result has no "${key}"${didYouMean(key, RESULT_NAMES)}`, { key })
  const { reward, episodeDone, nextMessages, stopReason, metrics } = result
  if (!Number.isFinite(reward))
    throw new EnvContractError(`${where}: expected reward to be a finite number, got ${String(reward)}`)
  if (typeof episodeDone !== 'boolean')
    throw new EnvContractError(`${where}: expected episodeDone to be true or false, got ${String(episodeDone)}`)
  checkMessages(nextMessages, where)
  if (stopReason !== undefined && !isStopReason(stopReason))
    throw new EnvContractError(
      `${where}: stopReason ${JSON.stringify(stopReason)} is not one of ${STOP_REASONS.join(', ')}`,
    )
  checkMetrics(metrics, where)
}

/** @throws EnvContractError for a value that is no finite number, or a name that the framework keeps for itself */
export function checkMetrics(metrics: Readonly<Record<string, number>> | undefined, where: string): void {
  if (metrics === undefined) return
  for (const name in metrics) {
    if (!Number.isFinite(metrics[name]))
      throw new EnvContractError(`${where}: expected the metric "${name}" to be a finite number, got ${metrics[name]}`)
    if (name.startsWith('stop/'))
      throw new EnvContractError(`${where}: the metric "${name}" is the framework's; return stopReason instead`)
  }
}
