import type { Message } from '@selfplay/renderers'
import { Conversation } from './conversation.js'
import { bounded, type Deadline } from './deadline.js'
import { neverAborted } from './on-abort.js'
import { EnvInputError, TimeoutError } from './errors.js'
import type { MessageEnv } from './message-env.js'
import type { Logs, Metrics } from './metrics.js'
import { endOf, messageOf, type MessagePolicy, type PolicyReply } from './policies/policy.js'
import { deriveSeed } from './random.js'
import { namesOf } from './options.js'
import type { StopReason } from './stop-reason.js'
import { finishedReward } from './types.js'

export interface PlayEnvOptions {
  /** Most replies. Default 1000. */
  readonly maxTurns?: number
  /** Most seconds for one reply; null is no limit, for people. Default null. */
  readonly replyTimeoutSeconds?: number | null
  /** Most seconds for one call of the environment; null is no limit. Default 300. */
  readonly envTimeoutSeconds?: number | null
  /** Seeds the policy. Default: none. */
  readonly seed?: number
  readonly signal?: AbortSignal
}

const checkNames = namesOf<PlayEnvOptions>(
  'playEnv',
  'maxTurns',
  'replyTimeoutSeconds',
  'envTimeoutSeconds',
  'seed',
  'signal',
)

/** One reply, and what the environment made of it. */
export interface EpisodeTurn {
  readonly reply: PolicyReply
  readonly reward: number
  readonly nextMessages: readonly Message[]
  readonly metrics: Metrics
  readonly logs: Logs
}

export interface Episode {
  /** The whole conversation. */
  readonly transcript: readonly Message[]
  readonly turns: readonly EpisodeTurn[]
  /** Sum of the rewards. */
  readonly reward: number
  readonly stopReason: StopReason
}

/**
 * Plays one episode of a message environment with a policy: a script, a person, a model. No tokens are involved unless the
 * policy uses some.
 *
 * A reply of a model that was cut off ends the episode with `max_tokens`, one that cannot be read with `parse_error`.
 *
 * @throws what the environment or the policy throws, as it is; EnvContractError and FullHistoryReturnedError for results that
 *   break the contract; TimeoutError; the signal's reason when aborted. The environment is closed in any case
 */
export async function playEnv(env: MessageEnv, policy: MessagePolicy, options: PlayEnvOptions = {}): Promise<Episode> {
  checkNames(options)
  const { maxTurns = 1000, replyTimeoutSeconds = null, envTimeoutSeconds = 300, seed, signal = neverAborted } = options
  if (!Number.isInteger(maxTurns) || maxTurns < 1)
    throw new EnvInputError(`maxTurns: expected an integer of at least 1, got ${maxTurns}`)
  const callEnv = <T>(what: string, call: (signal: AbortSignal) => T | Promise<T>) =>
    bounded(call, { signal, deadlines: within(envTimeoutSeconds, `env.${what}`, 'env_timeout') })
  try {
    const first = await callEnv('initialObservation', (inner) => env.initialObservation({ signal: inner }))
    const conversation = new Conversation(env, first)
    const episode = {}
    const turns: EpisodeTurn[] = []
    let newMessages: readonly Message[] = [...conversation.messages]
    for (let turn = 0; ; turn++) {
      if (turn === maxTurns) return await finish(env, conversation, turns, 'max_turns', callEnv)
      const about = { ...env.playerView?.(), tools: env.tools ?? [], episode }
      const asked = { ...about, messages: conversation.messages, newMessages, turn }
      const own = seed === undefined ? {} : { seed: deriveSeed(seed, turn) }
      const deadlines = within(replyTimeoutSeconds, 'the policy', 'policy_timeout')
      const reply = await bounded((inner) => policy({ ...asked, ...own, signal: inner }), { signal, deadlines })
      conversation.reply(messageOf(reply))
      const { clean, termination, cutOff } = endOf(reply)
      if (!clean) return episodeOf(conversation, [...turns, unread(reply)], cutOff ? 'max_tokens' : 'parse_error')
      const context = { termination, turn, transcript: conversation.messages }
      const result = await callEnv('step', (inner) => env.step(messageOf(reply), { ...context, signal: inner }))
      newMessages = conversation.take(result)
      const { reward, nextMessages, metrics = {}, logs = {} } = result
      turns.push({ reply, reward, nextMessages, metrics, logs })
      if (result.episodeDone) return episodeOf(conversation, turns, result.stopReason ?? 'completed')
    }
  } finally {
    await env.close?.()
  }
}

const within = (seconds: number | null, what: string, code: `${string}_timeout`): Deadline[] =>
  seconds === null ? [] : [{ ms: seconds * 1000, expired: () => new TimeoutError(what, seconds, code) }]

const unread = (reply: PolicyReply): EpisodeTurn => ({ reply, reward: 0, nextMessages: [], metrics: {}, logs: {} })

const episodeOf = (conversation: Conversation, turns: readonly EpisodeTurn[], stopReason: StopReason): Episode => ({
  transcript: conversation.messages,
  turns,
  reward: turns.reduce((total, turn) => total + turn.reward, 0),
  stopReason,
})

type CallEnv = <T>(what: string, call: (signal: AbortSignal) => T | Promise<T>) => T | Promise<T>

/** A limit ends the episode: the environment may still grade it. */
async function finish(
  env: MessageEnv,
  conversation: Conversation,
  turns: readonly EpisodeTurn[],
  reason: StopReason,
  callEnv: CallEnv,
): Promise<Episode> {
  const context = { turn: conversation.turn, transcript: conversation.messages }
  const finished = await callEnv('finish', (signal) => env.finish?.(reason, { ...context, signal }))
  const last = turns.at(-1)
  if (!finished || !last) return episodeOf(conversation, turns, reason)
  const graded = {
    ...last,
    reward: finishedReward(last.reward, finished),
    metrics: { ...last.metrics, ...finished.metrics },
    logs: { ...last.logs, ...finished.logs },
  }
  return episodeOf(conversation, [...turns.slice(0, -1), graded], reason)
}
