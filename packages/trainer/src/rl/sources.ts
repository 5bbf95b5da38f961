import type { TrainingClient } from '@selfplay/engine'
import {
  clientSampler,
  deriveSeed,
  runGroup,
  runGroups,
  type EnvGroupBuilder,
  type GroupRunOptions,
  type RLDataset,
  type SamplerOptions,
  type TrajectoryGroup,
} from '@selfplay/env'
import { withDeadline } from '../deadline.js'
import { DatasetError } from '../errors.js'
import type { ResolvedRLSettings } from './config.js'
import { PacedProducer } from './producer.js'
import { Snapshots } from './snapshots.js'

/** The groups of one batch, with how long they took. */
export interface SampledBatch {
  readonly groups: readonly TrajectoryGroup[]
  /** `time/*`. */
  readonly times: Readonly<Record<string, number>>
}

/** Where the groups of a run come from. */
export interface GroupSource {
  /** The groups of update `step` (from 0), to be asked for in order. */
  next(step: number, signal: AbortSignal): Promise<SampledBatch>
  /** Says that the weights are those after `step` updates. */
  stepped(step: number, signal: AbortSignal): Promise<void>
  close(): Promise<void>
}

export interface SourceOptions {
  readonly client: TrainingClient
  readonly dataset: RLDataset
  readonly settings: ResolvedRLSettings
  readonly filter: GroupRunOptions['filter']
}

/** How settings sample. */
export function samplerOptions({
  temperature,
  topK,
  topP,
  maxTokens,
}: Pick<ResolvedRLSettings, 'temperature' | 'topK' | 'topP' | 'maxTokens'>): SamplerOptions {
  return {
    temperature,
    topP,
    ...(topK !== null && { topK }),
    ...(maxTokens !== null && { maxTokens }),
  }
}

function groupOptions({ settings, filter }: SourceOptions): Omit<GroupRunOptions, 'sample'> {
  const { limits, strategy, concurrency, rewardTimeoutSeconds } = settings
  return {
    limits,
    strategy,
    concurrency,
    rewardTimeoutSeconds,
    ...(filter && { filter }),
  }
}

/** The seed of the samples of update `step`; group k of it has `deriveSeed(seed, k)`. */
const batchSeed = (seed: number, step: number): number => deriveSeed(seed, 'rollouts', step)

/** A batch of a data set. @throws what the data set throws; the signal's reason when aborted, however long it takes. */
export const batchOf = (dataset: RLDataset, index: number, signal: AbortSignal): Promise<readonly EnvGroupBuilder[]> =>
  withDeadline((inner) => dataset.getBatch(index, { signal: inner }), { seconds: Infinity, signal, what: 'getBatch' })

/** The builders of update `step`; the data set is gone through again and again. @throws DatasetError for an empty batch */
async function buildersOf(dataset: RLDataset, step: number, signal: AbortSignal): Promise<readonly EnvGroupBuilder[]> {
  const index = step % dataset.length
  const builders = await batchOf(dataset, index, signal)
  if (builders.length > 0) return builders
  throw new DatasetError(`batch ${index} of the data set has no groups: expected at least one`, { batch: index })
}

/** Samples a batch when it is asked for, with the weights as they are: nothing is ever stale. */
export function synchronousSource(options: SourceOptions): GroupSource {
  const { client, dataset, settings } = options
  return {
    async next(step, signal) {
      const started = performance.now()
      const builders = await buildersOf(dataset, step, signal)
      const sampler = await client.sampler()
      try {
        const sample = clientSampler(sampler, samplerOptions(settings))
        const seed = batchSeed(settings.seed, step)
        const groups = await runGroups(builders, { ...groupOptions(options), sample, seed, signal })
        return { groups, times: { 'time/rollout': (performance.now() - started) / 1000 } }
      } finally {
        await sampler.dispose()
      }
    },
    stepped: () => Promise.resolve(),
    close: () => Promise.resolve(),
  }
}

interface TimedGroup {
  readonly group: TrajectoryGroup
  readonly seconds: number
}

/** Samples ahead of the training, as far as the bound on staleness allows; each group by the newest weights when it starts. */
export async function pacedSource(
  options: SourceOptions,
  bounds: { readonly first: number; readonly total: number },
  signal: AbortSignal,
): Promise<GroupSource> {
  const { client, dataset, settings } = options
  const snapshots = new Snapshots(client)
  await snapshots.renew(signal)
  const producer = new PacedProducer<EnvGroupBuilder, TimedGroup>(
    {
      ...bounds,
      maxStaleness: settings.offPolicy!.maxStaleness,
      workers: settings.offPolicy!.workers,
      getBatch: (index, inner) => buildersOf(dataset, index, inner),
      makeGroup: (builder, { batch, group: index }, inner) =>
        snapshots.use(async (sampler) => {
          const started = performance.now()
          const sample = clientSampler(sampler, samplerOptions(settings))
          const seed = deriveSeed(batchSeed(settings.seed, batch), index)
          const group = await runGroup(builder, { ...groupOptions(options), sample, seed, signal: inner })
          return { group, seconds: (performance.now() - started) / 1000 }
        }),
    },
    signal,
  )
  return {
    async next(step) {
      const started = performance.now()
      const made = await producer.next()
      if (!made) throw new DatasetError(`there is no batch for update ${step + 1}`, { step })
      return {
        groups: made.map(({ group }) => group),
        times: { 'time/rollout': (performance.now() - started) / 1000, ...samplingTimes(made) },
      }
    },
    async stepped(step, inner) {
      await snapshots.renew(inner)
      producer.advance(step)
    },
    async close() {
      await producer.close()
      await snapshots.close()
    },
  }
}

function samplingTimes(made: readonly TimedGroup[]): Record<string, number> {
  const seconds = made.map((group) => group.seconds)
  return {
    'time/sampling_time_min': Math.min(...seconds),
    'time/sampling_time_max': Math.max(...seconds),
    'time/sampling_time_mean': seconds.reduce((sum, value) => sum + value, 0) / seconds.length,
  }
}
