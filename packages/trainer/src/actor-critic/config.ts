import { z } from 'zod'
import { ConfigError } from '../errors.js'
import { magrpoConfigSchema, resolveConfig, type ResolvedConfig } from '../magrpo/config.js'
import { parseStrict } from '../strict-config.js'

/** Settings that critics add to those of {@link MAGRPOTrainer}. */
const criticFields = {
  /**
   * What the critic is asked: `v`, the value of a place (what is shown), or `q`, the value of an answer at a place. With `v` the
   * advantage is target - V(place). With `q` it is target - mean of Q over the node's other answers: Q of the answer itself would
   * be a baseline that depends on the action and bias the gradient (the reference does that). Default `v`.
   */
  criticType: z.enum(['v', 'q']).default('v'),
  /** Learning rate of separate critics; null: `agentLearningRate`. Default null. */
  criticLearningRate: z.number().positive().nullable().default(null),
  /** Factor on the value loss. Default 0.6. */
  valueLossCoef: z.number().positive().default(0.6),
  /** Steps of the critics on the values of one update. Default 1. */
  criticUpdates: z.number().int().positive().default(1),
  /**
   * Clip of values around those from before the update (PPO's value loss). It can only matter from the second of
   * `criticUpdates` on. Default null: off.
   */
  valueClipRange: z.number().positive().nullable().default(null),
}

const base = magrpoConfigSchema.omit({ advantageMode: true, raeDecay: true, raeInitial: true })

/** Settings of {@link IACTrainer}: MAGRPO's without its baselines, and those of critics. */
export const iacConfigSchema = base.extend({
  ...criticFields,
  /** Passes over the data set. Default 40. */
  numTrainEpochs: z.number().int().positive().default(40),
  /** Rows whose trees make one update; advantages are normalised over them. Default 8. */
  promptsPerUpdate: z.number().int().positive().default(8),
  /** Completions of each agent at each node. Default 1: a critic needs no group. `q` needs at least 2. */
  numGenerations: z.number().int().positive().default(1),
  /** Factor on the critic's value of the next turn. Default 0.9. */
  discount: z.number().min(0).max(1).default(0.9),
})

/** Settings of {@link MAACTrainer}. */
export const maacConfigSchema = iacConfigSchema.extend({
  /**
   * Show the critic the branch's earlier turns, prompts and answers, before the current ones. Default true: the reference
   * shows only what the transition repeats, so that a value cannot tell apart what the agents can.
   */
  criticHistory: z.boolean().default(true),
})

export type IACConfig = z.input<typeof iacConfigSchema>
export type MAACConfig = z.input<typeof maacConfigSchema>
export type CriticSettings = { readonly [K in keyof typeof criticFields]: z.output<(typeof criticFields)[K]> } & {
  readonly criticHistory: boolean
}

/** What is common to all trainers, and what is the critics'. */
export interface SplitConfig {
  readonly common: Partial<ResolvedConfig>
  readonly critic: CriticSettings
}

/**
 * Parses a config and parts it.
 * @throws ConfigError naming the option, what was expected and what came.
 */
export function splitConfig(schema: typeof iacConfigSchema | typeof maacConfigSchema, config: unknown): SplitConfig {
  const { criticType, criticLearningRate, valueLossCoef, criticUpdates, valueClipRange, ...rest } = parseStrict(
    schema,
    config,
    'config',
  )
  const { criticHistory = false, ...common } = rest as typeof rest & { criticHistory?: boolean }
  if (criticType === 'q' && common.numGenerations === 1) {
    throw new ConfigError(
      'config.criticType "q" compares an answer with the values of the other answers to the same prompt, but numGenerations is ' +
        '1: use at least 2, or criticType "v"',
      { numGenerations: 1 },
    )
  }
  if (valueClipRange !== null && criticUpdates === 1) {
    throw new ConfigError(
      'config.valueClipRange holds values near those from before the update, where a single step starts: set criticUpdates to ' +
        'at least 2, or leave valueClipRange out',
      { valueClipRange },
    )
  }
  return {
    common: { ...common, advantageMode: 'none' },
    critic: { criticType, criticLearningRate, valueLossCoef, criticUpdates, valueClipRange, criticHistory },
  }
}

/** The common part as MAGRPO resolves it. */
export const resolveCommon = ({ common }: SplitConfig, agents: number): ResolvedConfig => resolveConfig(common, agents)
