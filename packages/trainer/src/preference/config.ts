import { z } from 'zod'
import { ConfigError } from '../errors.js'
import { magrpoConfigSchema, resolveConfig, type ResolvedConfig } from '../magrpo/config.js'
import { parseStrict } from '../strict-config.js'

const positiveInt = z.number().int().positive()

const own = {
  /** Joint answers sampled of each prompt before training. Default 80. */
  preferenceNumCandidates: z.number().int().min(2).default(80),
  /** Which pairs are kept: those with the largest difference in reward, random ones, or all. Default `reward_gap`. */
  pairSelection: z.enum(['reward_gap', 'random', 'all']).default('reward_gap'),
  /** Pairs kept of each prompt; null: all, which `all` demands. Default 16, or null with `all`. */
  preferencePairsPerSample: positiveInt.nullable().optional(),
  /** Only pairs whose rewards differ by more than this count. Default 0: ties are no preference. */
  minRewardGap: z.number().nonnegative().default(0),
  /** Strength of the pull towards the reference: a larger beta stays nearer. Default 0.1. */
  dpoBeta: z.number().positive().default(0.1),
  /** Pairs per optimiser step. Default 8. */
  pairsPerUpdate: positiveInt.default(8),
}

/** Settings of {@link MADPOTrainer}. What it shares with MAGRPO has MAGRPO's meaning. */
export const madpoConfigSchema = magrpoConfigSchema
  .pick({
    maxSteps: true,
    seed: true,
    maxNewTokens: true,
    temperature: true,
    topP: true,
    topK: true,
    stop: true,
    perAgent: true,
    agentLearningRate: true,
    learningRateSchedule: true,
    warmupSteps: true,
    finalLearningRateFraction: true,
    adamBeta1: true,
    adamBeta2: true,
    adamEpsilon: true,
    weightDecay: true,
    maxGradNorm: true,
    evalInterval: true,
    evalNumSamples: true,
    evalGenerations: true,
    evalTemperature: true,
    loggingSteps: true,
    checkpointEvery: true,
    keepCheckpoints: true,
    rewardTimeoutSeconds: true,
    maxConsecutiveRewardFailures: true,
    abortGraceSeconds: true,
    maxConcurrentPolicies: true,
  })
  .extend({
    ...own,
    /** Passes over the pairs. Default 1. */
    numTrainEpochs: positiveInt.default(1),
  })

export type MADPOConfig = z.input<typeof madpoConfigSchema>

/** What is MADPO's own, with every default in place. */
export interface PreferenceSettings {
  readonly preferenceNumCandidates: number
  readonly pairSelection: 'reward_gap' | 'random' | 'all'
  readonly preferencePairsPerSample: number | null
  readonly minRewardGap: number
  readonly dpoBeta: number
  readonly pairsPerUpdate: number
}

/**
 * Parses a config and parts it into what is common to all trainers and what is MADPO's.
 *
 * @throws ConfigError naming the option, what was expected and what came.
 */
export function resolveMadpo(
  config: MADPOConfig,
  agents: number,
): { readonly common: ResolvedConfig; readonly preference: PreferenceSettings } {
  const parsed = parseStrict(madpoConfigSchema, config, 'config')
  const { preferenceNumCandidates, pairSelection, preferencePairsPerSample, minRewardGap, dpoBeta, ...rest } = parsed
  const { pairsPerUpdate, ...common } = rest
  if (pairSelection === 'all' && typeof preferencePairsPerSample === 'number') {
    throw new ConfigError(
      `config.pairSelection "all" keeps every pair, but preferencePairsPerSample is ${preferencePairsPerSample}: leave one out`,
      { preferencePairsPerSample },
    )
  }
  const kept = preferencePairsPerSample === undefined ? (pairSelection === 'all' ? null : 16) : preferencePairsPerSample
  return {
    common: resolveConfig({ ...common, numGenerations: preferenceNumCandidates }, agents),
    preference: {
      preferenceNumCandidates,
      pairSelection,
      preferencePairsPerSample: kept,
      minRewardGap,
      dpoBeta,
      pairsPerUpdate,
    },
  }
}
