import {
  createTranscript,
  toolCallsOf,
  user,
  type HistoryBreak,
  type Message,
  type ParseFailure,
  type ParsedResponse,
  type Renderer,
  type Transcript,
} from '@selfplay/renderers'
import { z } from 'zod'
import { Conversation } from './conversation.js'
import { EnvReusedError } from './errors.js'
import type { MessageEnv, MessageStepResult, StepContext } from './message-env.js'
import type { Logs, MetricReducers, Metrics } from './metrics.js'
import { parseOptions } from './options.js'
import {
  defaultRetryMessage,
  parseErrorPolicySchema,
  retryText,
  type ParseErrorPolicy,
  type ParsedErrorPolicy,
} from './parse-error-policy.js'
import { rolloutLimitsSchema, type RolloutLimits } from './rollout/limits.js'
import type { StopReason } from './stop-reason.js'
import type {
  Action,
  CallOptions,
  Env,
  FinishResult,
  InitialOverflow,
  Observation,
  StepResult,
  StopCondition,
} from './types.js'

export interface EnvFromMessageEnvOptions {
  readonly renderer: Renderer
  readonly messageEnv: MessageEnv
  /** Reward of a reply that has no clean end. Default -1. */
  readonly failedParseReward?: number
  /** Such a reply ends the episode. If not, the policy is asked again. Default true. */
  readonly terminateOnParseError?: boolean
  /** Most tokens of a prompt and its sample. Default null: no limit. */
  readonly maxTrajectoryTokens?: number | null
  /** Caps every sample, and is kept free after every prompt. Default null: no cap, and room for one token is kept. */
  readonly maxGenerationTokens?: number | null
  /**
   * Reward of the step after which the prompt does not fit, here or in the policy's context, in place of the environment's, which
   * is logged as `reward_before_overflow`. Default -0.1.
   */
  readonly contextOverflowReward?: number
  /** Reward of a reply that was cut off by length. Default -0.1. */
  readonly lengthReward?: number
  /** Such a reply ends the episode. If not, `MessageEnv.observeTruncated` decides. Default true. */
  readonly terminateOnLength?: boolean
  /** Retries and penalties for replies that cannot be read, tool calls included. Default null. */
  readonly parseErrorPolicy?: ParseErrorPolicy | null
  /**
   * `sampled` (default): each prompt continues the very ids that were sampled, so prompt k+1 starts with prompt k and sample k.
   * `template`: each prompt is the whole conversation as the chat template renders it.
   */
  readonly history?: 'sampled' | 'template'
  /** Limits that the runner is asked for. Default none. */
  readonly rolloutLimits?: Partial<RolloutLimits> | null
}

const tokenCount = z.int().positive().nullable().default(null)
const optionsSchema = z.strictObject({
  failedParseReward: z.number().default(-1),
  terminateOnParseError: z.boolean().default(true),
  maxTrajectoryTokens: tokenCount,
  maxGenerationTokens: tokenCount,
  contextOverflowReward: z.number().default(-0.1),
  lengthReward: z.number().default(-0.1),
  terminateOnLength: z.boolean().default(true),
  parseErrorPolicy: parseErrorPolicySchema.nullable().default(null),
  history: z.enum(['sampled', 'template']).default('sampled'),
  rolloutLimits: rolloutLimitsSchema.nullable().default(null),
})

/** Turns a task that speaks in messages into one that speaks in tokens. All options are readable properties. */
export class EnvFromMessageEnv implements Env {
  readonly renderer: Renderer
  readonly messageEnv: MessageEnv
  readonly failedParseReward: number
  readonly terminateOnParseError: boolean
  readonly maxTrajectoryTokens: number | null
  readonly maxGenerationTokens: number | null
  readonly contextOverflowReward: number
  readonly lengthReward: number
  readonly terminateOnLength: boolean
  readonly parseErrorPolicy: ParsedErrorPolicy | null
  readonly history: 'sampled' | 'template'
  readonly rolloutLimits: Partial<RolloutLimits> | null
  readonly #tokens: Transcript
  #conversation: Conversation | undefined
  #prompt: Int32Array = new Int32Array(0)
  /** Of the last step that the episode went on after. */
  #reward = 0
  #parseErrorsInARow = 0
  #done = false

  /** @throws EnvInputError for an unknown option, with the nearest known one, or a value that cannot be used */
  constructor({ renderer, messageEnv, ...rest }: EnvFromMessageEnvOptions) {
    const options = parseOptions(optionsSchema, rest, 'EnvFromMessageEnv')
    this.renderer = renderer
    this.messageEnv = messageEnv
    this.failedParseReward = options.failedParseReward
    this.terminateOnParseError = options.terminateOnParseError
    this.maxTrajectoryTokens = options.maxTrajectoryTokens
    this.maxGenerationTokens = options.maxGenerationTokens
    this.contextOverflowReward = options.contextOverflowReward
    this.lengthReward = options.lengthReward
    this.terminateOnLength = options.terminateOnLength
    this.parseErrorPolicy = options.parseErrorPolicy
    this.history = options.history
    this.rolloutLimits = options.rolloutLimits
    this.#tokens = createTranscript(renderer, { history: this.history, tools: messageEnv.tools ?? [] })
  }

  /** The conversation so far, as messages. */
  get transcript(): readonly Message[] {
    return this.#conversation?.messages ?? []
  }

  /** Where a prompt did not start with the prompt before it and its sample, and why. */
  get breaks(): readonly HistoryBreak[] {
    return this.#tokens.breaks
  }

  get limits(): Partial<RolloutLimits> {
    return this.rolloutLimits ?? {}
  }

  get metricReducers(): MetricReducers {
    return this.messageEnv.metricReducers ?? {}
  }

  get exampleId(): string | undefined {
    return this.messageEnv.exampleId
  }

  async initialObservation(options: CallOptions): Promise<Observation | InitialOverflow> {
    if (this.#conversation) throw new EnvReusedError('an environment serves one episode; make a new one')
    this.#conversation = new Conversation(this.messageEnv, await this.messageEnv.initialObservation(options))
    this.#prompt = this.#tokens.prompt(this.#conversation.messages)
    if (!this.#overflows(this.#prompt)) return this.#observation(this.#prompt, [])
    this.#done = true
    const logs = { context_overflow: this.#overflowText(this.#prompt) }
    return { overflow: true, reward: this.contextOverflowReward, metrics: { max_tokens_reached: 1 }, logs }
  }

  async step(action: Action, options: CallOptions): Promise<StepResult> {
    const conversation = this.#conversation
    if (!conversation || this.#done)
      throw new EnvReusedError('step: expected initialObservation() first, and no step after the episode is done')
    const parsed = this.#tokens.sampled(action.tokens)
    const context = { ...options, termination: parsed.termination, turn: conversation.turn }
    conversation.reply(parsed.message)
    if (action.stopReason === 'length') return this.#stepTruncated(action, parsed, context, conversation)
    const failure = this.#failureOf(parsed)
    if (failure) return this.#stepUnreadable(action, parsed, failure, conversation)
    this.#parseErrorsInARow = 0
    const result = await this.messageEnv.step(parsed.message, { ...context, transcript: conversation.messages })
    return this.#stepTaken(action, parsed, result, conversation)
  }

  async finish(reason: StopReason, options: CallOptions): Promise<FinishResult | undefined> {
    const conversation = this.#conversation
    if (this.#done || !conversation) return undefined
    this.#done = true
    if (reason === 'context_overflow') {
      const logs = { reward_before_overflow: this.#reward }
      return { reward: this.contextOverflowReward, replaces: true, metrics: { context_overflow: 1 }, logs }
    }
    const { messages, turn } = conversation
    return this.messageEnv.finish?.(reason, { ...options, transcript: messages, turn })
  }

  close(): void | Promise<void> {
    return this.messageEnv.close?.()
  }

  async #stepTruncated(
    action: Action,
    parsed: ParsedResponse,
    context: Omit<StepContext, 'transcript'>,
    conversation: Conversation,
  ): Promise<StepResult> {
    const observed = this.terminateOnLength
      ? undefined
      : await this.messageEnv.observeTruncated?.(parsed.message, { ...context, transcript: conversation.messages })
    if (observed) return this.#stepTaken(action, parsed, observed, conversation)
    return this.#end(action, parsed, this.lengthReward, 'max_tokens', { max_tokens_reached: 1 })
  }

  /** A reply without a clean end; with a policy, also one whose tool calls all failed to parse. */
  #failureOf(parsed: ParsedResponse): ParseFailure | undefined {
    if (!parsed.isClean) return parsed.failure ?? { kind: 'structural', detail: 'the reply has no clean end' }
    const contentCounts = this.parseErrorPolicy !== null && toolCallsOf(parsed.message).length === 0
    return contentCounts ? parsed.failure : undefined
  }

  #stepUnreadable(
    action: Action,
    parsed: ParsedResponse,
    failure: ParseFailure,
    conversation: Conversation,
  ): StepResult {
    const policy = this.parseErrorPolicy
    const mayGoOn = failure.kind === 'content' || !this.terminateOnParseError
    const again = mayGoOn && (policy === null || this.#parseErrorsInARow < policy.maxConsecutive)
    const masked = policy?.maskErrorTurns === true
    const metrics = {
      parse_error: 1,
      ...(masked ? { parse_error_masked: 1 } : {}),
      ...(again ? { parse_retries: 1 } : {}),
    }
    const logs = { parse_failure_kind: failure.kind, parse_failure_detail: failure.detail }
    const mask = masked ? { masked } : {}
    if (!again) {
      const reward = policy?.terminalReward ?? this.failedParseReward
      return { ...this.#end(action, parsed, reward, 'parse_error', metrics, logs), ...mask }
    }
    this.#parseErrorsInARow++
    conversation.say(user(retryText(policy?.retryMessage ?? defaultRetryMessage, failure.detail)))
    const reward = policy ? -policy.penaltyPerError : this.failedParseReward
    return { ...this.#goOn(action, parsed, reward, metrics, logs, this.renderer.stop), ...mask }
  }

  #stepTaken(
    action: Action,
    parsed: ParsedResponse,
    result: MessageStepResult,
    conversation: Conversation,
  ): StepResult {
    conversation.take(result)
    const { reward, episodeDone, metrics = {}, logs = {}, stopReason } = result
    if (episodeDone) return this.#end(action, parsed, reward, stopReason ?? 'completed', metrics, logs)
    const stop = result.nextStop && result.nextStop.length > 0 ? result.nextStop : this.renderer.stop
    return this.#goOn(action, parsed, reward, metrics, logs, stop)
  }

  /** Renders what comes next, and ends the episode if that does not fit. */
  #goOn(
    action: Action,
    parsed: ParsedResponse,
    reward: number,
    metrics: Metrics,
    logs: Logs,
    stop: StopCondition,
  ): StepResult {
    const before = this.#prompt
    const brokenBefore = this.breaks.length
    const prompt = this.#tokens.prompt(this.transcript)
    const broken = this.breaks[brokenBefore]
    const allMetrics = broken ? { ...metrics, prefix_breaks: 1 } : metrics
    const allLogs = broken ? { ...logs, prefix_break: broken.reason } : logs
    if (this.#overflows(prompt)) {
      this.#prompt = before
      return this.#end(
        action,
        parsed,
        this.contextOverflowReward,
        'context_overflow',
        { ...metrics, context_overflow: 1 },
        {
          ...logs,
          context_overflow: this.#overflowText(prompt),
          reward_before_overflow: reward,
        },
      )
    }
    this.#prompt = prompt
    this.#reward = reward
    return {
      reward,
      episodeDone: false,
      nextObservation: this.#observation(prompt, stop),
      metrics: allMetrics,
      logs: allLogs,
      message: parsed.message,
    }
  }

  #end(
    action: Action,
    parsed: ParsedResponse,
    reward: number,
    stopReason: StopReason,
    metrics: Metrics = {},
    logs: Logs = {},
  ): StepResult {
    this.#done = true
    const nextObservation = { tokens: joined(this.#prompt, action.tokens), stop: [] }
    return { reward, episodeDone: true, nextObservation, stopReason, metrics, logs, message: parsed.message }
  }

  #overflows(prompt: Int32Array): boolean {
    return (
      this.maxTrajectoryTokens !== null && prompt.length + (this.maxGenerationTokens ?? 1) > this.maxTrajectoryTokens
    )
  }

  #overflowText(prompt: Int32Array): string {
    return `prompt ${prompt.length} + room for an answer ${this.maxGenerationTokens ?? 1} > ${this.maxTrajectoryTokens}`
  }

  #observation(tokens: Int32Array, stop: StopCondition): Observation {
    const room = this.maxTrajectoryTokens === null ? Infinity : this.maxTrajectoryTokens - tokens.length
    const maxTokens = Math.min(this.maxGenerationTokens ?? Infinity, room)
    const stops = stop.length > 0 ? stop : this.renderer.stop
    return { tokens, stop: stops, ...(maxTokens === Infinity ? {} : { maxTokens }) }
  }
}

function joined(prompt: Int32Array, sampled: Int32Array): Int32Array {
  const ids = new Int32Array(prompt.length + sampled.length)
  ids.set(prompt)
  ids.set(sampled, prompt.length)
  return ids
}
