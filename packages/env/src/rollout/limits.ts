import { nearest } from '@selfplay/renderers'
import { z } from 'zod'
import { EnvInputError } from '../errors.js'
import { parseOptions } from '../options.js'
import type { Env } from '../types.js'

const count = z.int().positive().nullable().exactOptional()
const seconds = z.number().positive().nullable().exactOptional()

/** What may be given as limits, without the defaults: those of the environment come between. */
export const rolloutLimitsSchema = z.strictObject({
  maxTurns: count,
  maxTrajectoryTokens: count,
  maxEpisodeTokens: count,
  maxTurnTokens: count,
  rolloutTimeoutSeconds: seconds,
  sampleTimeoutSeconds: seconds,
  envTimeoutSeconds: seconds,
})

/** What a rollout may use up. `null` is no limit. */
export interface RolloutLimits {
  /** Most turns. Ends the episode with `max_turns`. Default null. */
  readonly maxTurns: number | null
  /** Most tokens of prompt and sample together. Caps samples; ends the episode with `max_tokens`. Default null. */
  readonly maxTrajectoryTokens: number | null
  /** Most tokens sampled over the whole episode. Caps samples; ends the episode with `max_sampled_tokens`. Default null. */
  readonly maxEpisodeTokens: number | null
  /** Most tokens sampled in one turn. Default null. */
  readonly maxTurnTokens: number | null
  /** Wall-clock limit of the episode. What was reached is kept, with `rollout_timeout`. Default null. */
  readonly rolloutTimeoutSeconds: number | null
  /** Limit of one sample. Passing it is a failure with code `sample_timeout`. Default 3600. */
  readonly sampleTimeoutSeconds: number | null
  /** Limit of one call of the environment's code. Passing it is a failure with code `env_timeout`. Default 300. */
  readonly envTimeoutSeconds: number | null
}

/** @throws EnvInputError for an option that is a limit, and stands beside `limits` instead of in it */
export function refuseLimits(what: string, options: object, known: readonly string[]): void {
  for (const key of Object.keys(options)) {
    if (known.includes(key) || nearest(key, known) !== undefined) continue
    const limit = nearest(key, Object.keys(rolloutLimitsSchema.shape))
    if (limit === undefined) continue
    throw new EnvInputError(`${what} has no option "${key}": did you mean limits: { ${limit} }?`, { key, limit })
  }
}

/** @throws EnvInputError */
export const parseLimits = (limits: Partial<RolloutLimits>): Partial<RolloutLimits> =>
  parseOptions(rolloutLimitsSchema, limits, 'limits')

const defaults: RolloutLimits = {
  maxTurns: null,
  maxTrajectoryTokens: null,
  maxEpisodeTokens: null,
  maxTurnTokens: null,
  rolloutTimeoutSeconds: null,
  sampleTimeoutSeconds: 3600,
  envTimeoutSeconds: 300,
}

/** The limits of one rollout: those given, else those that the environment asks for, else the defaults. */
export const limitsFor = (env: Pick<Env, 'limits'>, given: Partial<RolloutLimits>): RolloutLimits => ({
  ...defaults,
  ...env.limits,
  ...given,
})
