import { lossSchema, type Loss } from '@selfplay/engine'
import { rolloutLimitsSchema, strategySchema } from '@selfplay/env'
import { z } from 'zod'
import { ConfigError } from '../errors.js'
import { optimiserSettings, runSettings } from '../optimiser-settings.js'
import { collapseSetting } from '../run/collapse.js'

const positiveInt = z.number().int().positive()
const count = z.number().int().nonnegative()

/** Plain settings of `trainRL`. */
export const rlSettings = {
  /** Updates of the run; the data set is gone through again when it has fewer batches. Default null: one pass. */
  steps: positiveInt.nullable().default(null),
  /** Seeds every sample of the run. Default 0. */
  seed: z.number().int().default(0),

  /** Sampling temperature, also that of the log-probs in training. Default 1. */
  temperature: z.number().positive().default(1),
  /** Sample only from the k most probable tokens; null: all. Default null. */
  topK: positiveInt.nullable().default(null),
  /** Sample only from the most probable tokens that reach p. Default 1. */
  topP: z.number().positive().max(1).default(1),
  /** Most tokens of one sample, besides what environments and limits allow. Default null: no cap of its own. */
  maxTokens: positiveInt.nullable().default(null),
  /** Limits of each rollout, see `RolloutLimits`. Default none beside its own defaults. */
  limits: rolloutLimitsSchema.default({}),
  /**
   * What a failed rollout means for its group, see `Strategy`. Default `minimum-viable`: a group stands on three quarters of
   * its members; the reference stops the run at the first failure.
   */
  strategy: strategySchema.default({ kind: 'minimum-viable' }),
  /** Most rollouts at once. Default 64. */
  concurrency: positiveInt.default(64),
  /** Most seconds for the rewards of one group; null: no limit. Default 900. */
  rewardTimeoutSeconds: z.number().positive().nullable().default(900),
  /** Groups that may fail one after another before the run stops. Default 10. A batch that fails before anything worked stops it at once. */
  maxConsecutiveFailures: positiveInt.default(10),

  /** What a return is compared with: the mean of the group, the mean of the others (`rloo`), or 0. Default `mean`. */
  advantageMode: z.enum(['mean', 'rloo', 'none']).default('mean'),
  /** Divide advantages by the group's population standard deviation (floor 1e-6). Default false. */
  advantageNormalization: z.boolean().default(false),
  /**
   * `trajectory`: every turn gets the advantage of the whole episode. `turn`: each turn that of its own return to go, compared
   * with the group's returns to go at that turn, where an episode that is over has 0. Default `trajectory`.
   */
  credit: z.enum(['trajectory', 'turn']).default('trajectory'),
  /** Factor on the return of the next turn. Default 1. */
  discount: z.number().min(0).max(1).default(1),
  /** Do not train on samples that were cut off by length. Default false. */
  maskTruncated: z.boolean().default(false),
  /**
   * The loss; null picks `importance_sampling`, or the clipped `ppo` when samples become stale (`offPolicy`, or more than one
   * substep). Normalised by sum unless it says otherwise. Default null.
   */
  loss: lossSchema.nullable().default(null),
  /** Optimiser steps per update: the data is cut into so many nearly equal parts. Default 1. */
  numSubsteps: positiveInt.default(1),
  /**
   * Penalty on the log-ratio to a reference policy, per sampled token: coef * (mean - d), d = log p - log p_ref, `discount` > 0
   * adds the later ones of the episode. Default null: off. Discount default 0.
   */
  klPenalty: z
    .strictObject({ coef: z.number().nonnegative(), discount: z.number().min(0).max(1).default(0) })
    .nullable()
    .default(null),
  /** Measure how far an update has moved the policy on its own samples, `kl_pre_post_*`: one more forward pass. Default false. */
  computePostKl: z.boolean().default(false),
  /** Largest mean |trainer log-prob - sampler log-prob| on fresh samples; above it the step is refused. null: off. Default 0.1. */
  maxSamplerGap: z.number().positive().nullable().default(0.1),
  /**
   * Sample while training: a batch may be sampled by weights up to `maxStaleness` updates older than those it trains. `workers`
   * groups are sampled at once; null: as many as a batch has. Default null: off.
   */
  offPolicy: z
    .strictObject({ maxStaleness: positiveInt, workers: positiveInt.nullable().default(null) })
    .nullable()
    .default(null),

  ...optimiserSettings,
  /** How the rate goes over the run. Default `constant`. */
  learningRateSchedule: optimiserSettings.learningRateSchedule.default('constant'),

  ...runSettings,
  /** Updates between HTML reports in the run folder; 0: none. Default 20. The last update always has one, unless 0. */
  reportEvery: count.default(20),
  /** Groups of the newest update that a report shows. Default 4. */
  groupsInReport: count.default(4),
  /**
   * Collapse: the mean reward over `window` updates has lost more than `drop` of what it had gained at its peak. `stop` ends
   * the run then. null: off. Default window 20, drop 0.5, no stop.
   */
  collapse: collapseSetting,
}

const rlSettingsSchema = z.strictObject(rlSettings)
/** What a user writes. */
export type RLSettings = z.input<typeof rlSettingsSchema>
/** With every default in place. */
export type ResolvedRLSettings = z.output<typeof rlSettingsSchema>

/** Settings that may differ when a run is taken up again: they decide how long it runs and what is told, not what is learnt. */
export const FREE_RL_SETTINGS: ReadonlySet<string> = new Set([
  'steps',
  'concurrency',
  'rewardTimeoutSeconds',
  'maxConsecutiveFailures',
  'checkpointEvery',
  'keepCheckpoints',
  'abortGraceSeconds',
  'reportEvery',
  'groupsInReport',
])

/** @throws ConfigError for options that do not work together. */
export function checkRLSettings({ loss }: ResolvedRLSettings): void {
  if (loss?.name === 'cross_entropy') {
    throw new ConfigError('loss "cross_entropy" ignores advantages: use importance_sampling, ppo, cispo, dro or gspo')
  }
}

/** The loss that settings train with. */
export function rlLoss({ loss, offPolicy, numSubsteps }: ResolvedRLSettings): Loss {
  if (!loss) return { name: offPolicy === null && numSubsteps === 1 ? 'importance_sampling' : 'ppo' }
  return Object.fromEntries(Object.entries(loss).filter(([, value]) => value !== undefined)) as unknown as Loss
}
