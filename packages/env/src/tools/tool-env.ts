import { textOf, type Message, type ToolSpec } from '@selfplay/renderers'
import { z } from 'zod'
import { EnvInputError } from '../errors.js'
import type { MessageEnv, MessageStepResult, StepContext } from '../message-env.js'
import type { Logs, MetricReducers, Metrics } from '../metrics.js'
import { parseOptions } from '../options.js'
import type { StopReason } from '../stop-reason.js'
import type { CallOptions, FinishResult } from '../types.js'
import { callTools, callsOf, type CalledTools } from './call-tools.js'
import type { Tool } from './tool.js'

export interface Grade {
  readonly reward: number
  readonly metrics?: Metrics
}

const optionsSchema = z.strictObject({
  maxTurns: z.int().positive().default(10),
  maxToolCalls: z.int().positive().nullable().default(null),
  execution: z.enum(['parallel', 'sequential']).default('parallel'),
  toolTimeoutSeconds: z.number().positive().nullable().default(60),
})

export interface ToolEnvOptions {
  readonly tools: readonly Tool[]
  /** What the conversation begins with. */
  readonly messages: readonly Message[]
  /** Grades the whole conversation once, when the episode ends, whatever ended it. */
  readonly grade: (transcript: readonly Message[], options: CallOptions) => number | Grade | Promise<number | Grade>
  /** Most replies. Default 10. */
  readonly maxTurns?: number
  /** Most calls over the episode; a turn that asks for more has its first calls run, and is the last one. Default null. */
  readonly maxToolCalls?: number | null
  /** Whether the calls of one turn run at the same time. Their results are in the order of the calls either way. Default parallel. */
  readonly execution?: 'parallel' | 'sequential'
  /** Most seconds for one call; null is no limit. Default 60. */
  readonly toolTimeoutSeconds?: number | null
  readonly metricReducers?: MetricReducers
  readonly exampleId?: string
}

/**
 * A model with tools. The episode ends with a reply that calls no tool (`completed`), when a tool asks for it (`tool_stopped`),
 * and at its budgets. Calls that cannot be read or fail give error messages to the model, and the turn goes on.
 */
export class ToolEnv implements MessageEnv {
  readonly tools: readonly ToolSpec[]
  readonly maxTurns: number
  readonly maxToolCalls: number | null
  readonly execution: 'parallel' | 'sequential'
  readonly toolTimeoutSeconds: number | null
  readonly metricReducers: MetricReducers
  readonly exampleId: string | undefined
  readonly #tools: readonly Tool[]
  readonly #messages: readonly Message[]
  readonly #grade: ToolEnvOptions['grade']
  #called = 0

  constructor({ tools, messages, grade, metricReducers = {}, exampleId, ...rest }: ToolEnvOptions) {
    const options = parseOptions(optionsSchema, rest, 'ToolEnv')
    const names = tools.map(({ name }) => name)
    const twice = names.find((name, k) => names.indexOf(name) !== k)
    if (twice !== undefined) throw new EnvInputError(`ToolEnv: two tools are called ${JSON.stringify(twice)}`)
    this.#tools = tools
    this.tools = tools.map(({ name, description, parameters }) => ({ name, description, parameters }))
    this.#messages = messages
    this.#grade = grade
    this.maxTurns = options.maxTurns
    this.maxToolCalls = options.maxToolCalls
    this.execution = options.execution
    this.toolTimeoutSeconds = options.toolTimeoutSeconds
    this.metricReducers = metricReducers
    this.exampleId = exampleId
  }

  initialObservation(): readonly Message[] {
    return this.#messages
  }

  async step(reply: Message, { signal, turn, transcript }: StepContext): Promise<MessageStepResult> {
    if (callsOf(reply).length === 0) return this.#end([], 'completed', undefined, transcript, signal, reply)
    const called = await callTools(reply, {
      tools: this.#tools,
      budget: this.maxToolCalls === null ? Infinity : this.maxToolCalls - this.#called,
      execution: this.execution,
      timeoutSeconds: this.toolTimeoutSeconds,
      signal,
    })
    this.#called += called.called
    const stop = this.#stopAfter(called, turn)
    if (stop) return this.#end(called.messages, stop, called, transcript, signal, reply)
    return {
      reward: 0,
      episodeDone: false,
      nextMessages: called.messages,
      metrics: metricsOf(called),
      logs: logsOf(reply, called),
    }
  }

  async finish(_reason: StopReason, { signal, transcript }: Omit<StepContext, 'termination'>): Promise<FinishResult> {
    return this.#graded(transcript, signal)
  }

  #stopAfter(called: CalledTools, turn: number): StopReason | undefined {
    if (called.stop) return 'tool_stopped'
    if (called.dropped > 0) return 'max_tool_calls'
    return turn + 1 >= this.maxTurns ? 'max_turns' : undefined
  }

  async #end(
    messages: readonly Message[],
    stopReason: StopReason,
    called: CalledTools | undefined,
    transcript: readonly Message[],
    signal: AbortSignal,
    reply: Message,
  ): Promise<MessageStepResult> {
    const { reward, metrics = {} } = await this.#graded([...transcript, ...messages], signal)
    return {
      reward,
      episodeDone: true,
      nextMessages: messages,
      stopReason,
      metrics: { ...(called ? metricsOf(called) : {}), ...metrics },
      logs: called ? logsOf(reply, called) : {},
    }
  }

  async #graded(transcript: readonly Message[], signal: AbortSignal): Promise<Grade> {
    const grade = await this.#grade(transcript, { signal })
    return typeof grade === 'number' ? { reward: grade } : grade
  }
}

const metricsOf = (called: CalledTools): Metrics => ({
  ...called.metrics,
  tool_calls: called.called,
  tool_errors: called.errors,
  ...(called.dropped > 0 ? { tool_calls_dropped: called.dropped } : {}),
})

function logsOf(reply: Message, called: CalledTools): Logs {
  const logs: Record<string, string> = {}
  callsOf(reply).forEach((call, k) => {
    logs[`tool_call_${k}`] = call.type === 'tool_call' ? `${call.name} ${call.arguments}` : call.rawText
  })
  called.messages.forEach((message, k) => (logs[`tool_result_${k}`] = textOf(message)))
  return logs
}
