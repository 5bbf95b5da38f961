import { textOf, user, type Message } from '@selfplay/renderers'
import { z } from 'zod'
import { EnvFromMessageEnv, type EnvFromMessageEnvOptions } from './env-from-message-env.js'
import { groupOf, type EnvGroupBuilder } from './group.js'
import type { MessageEnv, MessageStepResult, StepContext } from './message-env.js'
import type { MetricReducers } from './metrics.js'
import { parseOptions } from './options.js'

/** A question with an answer that can be checked. */
export interface Problem {
  readonly question: string
  /** Whether an answer is right, given its text (thinking left out). */
  checkAnswer(text: string): boolean | Promise<boolean>
  /** Whether an answer has the form that was asked for. Default: every text has. */
  checkFormat?(text: string): boolean
  /** The right answer, for logs. */
  readonly reference?: string
  readonly id?: string
}

const optionsSchema = z.strictObject({
  conversationPrefix: z.array(z.custom<Message>()).default([]),
  formatCoefficient: z.number().min(0).default(0.1),
  requireStopForFormat: z.boolean().default(true),
})

export interface ProblemEnvOptions {
  /** Messages before the question: a system prompt, worked examples. Default none. */
  readonly conversationPrefix?: readonly Message[]
  /** What a bad form costs. Default 0.1. */
  readonly formatCoefficient?: number
  /** Only an answer that ends with the format's own stop is well-formed; the end of the sequence is not enough. Default true. */
  readonly requireStopForFormat?: boolean
}

/**
 * One question, one answer. Reward = formatCoefficient * (format - 1) + correct: a wrong answer in good form 0, a right one in
 * bad form 1 - coefficient, a wrong one in bad form -coefficient.
 */
export class ProblemEnv implements MessageEnv {
  readonly problem: Problem
  readonly conversationPrefix: readonly Message[]
  readonly formatCoefficient: number
  readonly requireStopForFormat: boolean
  readonly metricReducers: MetricReducers = { correct: 'rate', format: 'rate' }

  constructor(problem: Problem, options: ProblemEnvOptions = {}) {
    const parsed = parseOptions(optionsSchema, options, 'ProblemEnv')
    this.problem = problem
    this.conversationPrefix = parsed.conversationPrefix
    this.formatCoefficient = parsed.formatCoefficient
    this.requireStopForFormat = parsed.requireStopForFormat
  }

  get exampleId(): string | undefined {
    return this.problem.id
  }

  initialObservation(): readonly Message[] {
    return [...this.conversationPrefix, user(this.problem.question)]
  }

  async step(reply: Message, { termination }: StepContext): Promise<MessageStepResult> {
    const text = textOf(reply)
    const ended = termination === 'stop' || (termination === 'eos' && !this.requireStopForFormat)
    const format = ended && (this.problem.checkFormat?.(text) ?? true) ? 1 : 0
    const correct = (await this.problem.checkAnswer(text)) ? 1 : 0
    const { reference } = this.problem
    return {
      reward: this.formatCoefficient * (format - 1) + correct,
      episodeDone: true,
      nextMessages: [],
      metrics: { format, correct },
      logs: reference === undefined ? {} : { reference },
    }
  }
}

export interface ProblemGroupOptions extends ProblemEnvOptions {
  /** Answers per problem. */
  readonly size: number
  /** What the adapter gets; its renderer is needed. */
  readonly adapter: Omit<EnvFromMessageEnvOptions, 'messageEnv'>
  /** Default `['problems']`. */
  readonly tags?: readonly string[]
}

/** A group of answers to one and the same problem. */
export function problemGroup(
  problem: Problem,
  { size, adapter, tags = ['problems'], ...options }: ProblemGroupOptions,
): EnvGroupBuilder {
  const makeEnv = () => new EnvFromMessageEnv({ ...adapter, messageEnv: new ProblemEnv(problem, options) })
  return groupOf(makeEnv, { size, tags })
}
