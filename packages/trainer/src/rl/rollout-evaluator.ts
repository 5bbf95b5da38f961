import { clientSampler, deriveSeed, runGroups, type EnvGroupBuilder, type RLDataset } from '@selfplay/env'
import { z } from 'zod'
import type { Evaluator } from '../evaluate/evaluator.js'
import { parseStrict } from '../strict-config.js'
import { rlSettings } from './config.js'
import { groupMetrics } from './measure.js'
import { batchOf, samplerOptions } from './sources.js'

const optionsSchema = z
  .strictObject(rlSettings)
  .pick({ topK: true, topP: true, maxTokens: true, limits: true, strategy: true, concurrency: true })
  .extend({
    /** Sampling temperature of this evaluation; 0 is greedy. Default 1. */
    temperature: z.number().nonnegative().default(1),
  })

/** As the settings of `trainRL` of the same names, with the same defaults; `temperature` may be 0, which is greedy. */
export type RolloutEvaluatorOptions = z.input<typeof optionsSchema>

/**
 * An evaluator that plays all groups of a data set with the policy: `<name>/env/all/reward/total` and its kin, by the same
 * functions as in training. The samples are seeded: two evaluations differ by the policy alone.
 *
 * @throws ConfigError naming each option that cannot be used, with the nearest known name for unknown ones
 */
export function rolloutEvaluator(
  name: string,
  dataset: RLDataset | readonly EnvGroupBuilder[],
  options: RolloutEvaluatorOptions = {},
): Evaluator {
  const { limits, strategy, concurrency, ...sampling } = parseStrict(optionsSchema, options, 'rolloutEvaluator')
  return {
    name,
    async evaluate({ sampler, seed, signal }) {
      const sample = clientSampler(await sampler(), samplerOptions(sampling))
      const groups = []
      for (const [index, builders] of (await batchesOf(dataset, signal)).entries()) {
        const own = deriveSeed(seed, index)
        groups.push(...(await runGroups(builders, { sample, limits, strategy, concurrency, seed: own, signal })))
      }
      return groupMetrics(groups)
    },
  }
}

async function batchesOf(
  dataset: RLDataset | readonly EnvGroupBuilder[],
  signal: AbortSignal,
): Promise<(readonly EnvGroupBuilder[])[]> {
  if (!('getBatch' in dataset)) return [dataset]
  const batches: (readonly EnvGroupBuilder[])[] = []
  for (let index = 0; index < dataset.length; index++) batches.push(await batchOf(dataset, index, signal))
  return batches
}
