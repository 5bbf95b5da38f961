import {
  datasetOf,
  groupOf,
  type Action,
  type Env,
  type EnvGroupBuilder,
  type StepResult,
  type Trajectory,
} from '@selfplay/env'
import type { RLConfig } from '../../src/rl/options.js'
import { RLTrainer } from '../../src/rl/trainer.js'
import { ToyClient, ToyTokenizer } from './toy-client.js'

const tokenizer = new ToyTokenizer()

export interface LetterEnvOptions {
  readonly turns?: number
  readonly maxTokens?: number
  /** What is said between turns. */
  readonly between?: string
}

/** Pays 1 for every a that is sampled, 2/3 for a b and 1/3 for a c, turn by turn; each prompt goes on where the last sample ended. */
export class LetterEnv implements Env {
  private readonly options: LetterEnvOptions
  private seen: number[]
  private turn = 0

  constructor(prompt: string, options: LetterEnvOptions = {}) {
    this.options = options
    this.seen = tokenizer.encode(prompt)
  }

  private observation() {
    return { tokens: Int32Array.from(this.seen), stop: [0], maxTokens: this.options.maxTokens ?? 6 }
  }

  initialObservation() {
    return this.observation()
  }

  step({ tokens, stopReason }: Action): StepResult {
    this.turn++
    const { turns = 1, between = 'b' } = this.options
    const episodeDone = this.turn >= turns
    this.seen.push(...tokens, ...(episodeDone ? [] : tokenizer.encode(between)))
    return {
      reward: tokens.reduce((sum, id) => sum + (id === 0 ? 0 : Math.max(0, 4 - id) / 3), 0),
      episodeDone,
      nextObservation: this.observation(),
      ...(episodeDone && { stopReason: stopReason === 'length' ? ('max_tokens' as const) : ('completed' as const) }),
    }
  }
}

export const letterGroup = (
  prompt: string,
  { size = 4, ...options }: LetterEnvOptions & { size?: number } & Partial<EnvGroupBuilder> = {},
): EnvGroupBuilder => groupOf(() => new LetterEnv(prompt, options), { size, tags: [prompt] })

/** Batches of two groups; three of them in a pass. */
export const letters = (options: LetterEnvOptions & { size?: number } = {}, batchSize = 2) =>
  datasetOf(['a', 'b', 'c', 'd', 'e', 'f'], (prompt) => letterGroup(prompt, options), { batchSize })

type Overrides = Partial<RLConfig>

/** A toy policy on a small task, with whatever a test wants to be different. */
export function toyRL(overrides: Overrides = {}) {
  const client = (overrides.client ?? new ToyClient()) as ToyClient
  const config: RLConfig = {
    dataset: letters(),
    learningRate: 0.05,
    steps: 6,
    evalEvery: 2,
    checkpointEvery: 0,
    reportEvery: 0,
    tokenizer,
    onNotice: () => {},
    ...overrides,
    client,
  }
  return { trainer: new RLTrainer(config), client, config }
}

/** A trajectory of given turns: [prompt ids, sampled ids]. Log-probs count down from -0.5. */
export function trajectoryOf(
  turns: readonly (readonly [
    prompt: readonly number[],
    sampled: readonly number[],
    extra?: { masked?: boolean; reward?: number },
  ])[],
): Trajectory {
  const transitions = turns.map(([prompt, sampled, { masked, reward = 0 } = {}], turn) => ({
    observation: Int32Array.from(prompt),
    action: {
      tokens: Int32Array.from(sampled),
      logprobs: Float32Array.from(sampled, (_, i) => -0.5 - i / 8),
      stopReason: 'stop' as const,
      policyVersion: 0,
    },
    reward,
    episodeDone: turn === turns.length - 1,
    metrics: {},
    logs: {},
    ...(masked && { masked }),
  }))
  return { transitions, finalObservation: new Int32Array(0), stopReason: 'completed' }
}
