import {
  clientSampler,
  runGroups,
  type EnvGroupBuilder,
  type GroupsRunOptions,
  type RLDataset,
  type SamplerOptions,
} from '@selfplay/env'
import type { Evaluator } from '../evaluate/evaluator.js'
import { deriveSeed } from '@selfplay/env'
import { groupMetrics } from './measure.js'

export interface RolloutEvaluatorOptions {
  /** Sampling temperature of this evaluation; 0 is greedy. Default 1. */
  readonly temperature?: number
  readonly topK?: number
  readonly topP?: number
  /** Most tokens of one sample, besides what the environments allow. */
  readonly maxTokens?: number
  readonly limits?: NonNullable<GroupsRunOptions['limits']>
  /** Default `minimum-viable`. */
  readonly strategy?: NonNullable<GroupsRunOptions['strategy']>
  /** Most rollouts at once. Default 64. */
  readonly concurrency?: number
}

/**
 * An evaluator that plays all groups of a data set with the policy: `<name>/env/all/reward/total` and its kin, by the same
 * functions as in training. The samples are seeded: two evaluations differ by the policy alone.
 */
export function rolloutEvaluator(
  name: string,
  dataset: RLDataset | readonly EnvGroupBuilder[],
  {
    temperature = 1,
    topK,
    topP,
    maxTokens,
    strategy = { kind: 'minimum-viable' },
    ...rest
  }: RolloutEvaluatorOptions = {},
): Evaluator {
  const sampling: SamplerOptions = {
    temperature,
    ...(topK !== undefined && { topK }),
    ...(topP !== undefined && { topP }),
    ...(maxTokens !== undefined && { maxTokens }),
  }
  return {
    name,
    async evaluate({ sampler, seed, signal }) {
      const sample = clientSampler(await sampler(), sampling)
      const groups = []
      for (const [index, builders] of (await batchesOf(dataset)).entries())
        groups.push(
          ...(await runGroups(builders, { ...rest, sample, strategy, seed: deriveSeed(seed, index), signal })),
        )
      return groupMetrics(groups)
    },
  }
}

async function batchesOf(dataset: RLDataset | readonly EnvGroupBuilder[]): Promise<(readonly EnvGroupBuilder[])[]> {
  if (!('getBatch' in dataset)) return [dataset]
  const batches: (readonly EnvGroupBuilder[])[] = []
  for (let index = 0; index < dataset.length; index++) batches.push(await dataset.getBatch(index))
  return batches
}
