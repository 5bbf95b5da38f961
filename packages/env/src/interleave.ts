import { z } from 'zod'
import { checkIndex, type RLDataset } from './dataset.js'
import { EnvInputError } from './errors.js'
import type { EnvGroupBuilder } from './group.js'
import { neverAborted } from './on-abort.js'
import { parseOptions } from './options.js'
import { Random, deriveSeed } from './random.js'
import type { CallOptions } from './types.js'

export interface WeightedSource {
  readonly dataset: RLDataset
  /** How often the source is drawn, relative to the others. Above 0. */
  readonly weight: number
}

const optionsSchema = z.strictObject({
  groupsPerBatch: z.int().positive(),
  totalBatches: z.int().positive().optional(),
  seed: z.int(),
})

export interface InterleaveOptions {
  readonly groupsPerBatch: number
  /** Default: until the first source would run out. A longer schedule goes through sources again, each time in another order. */
  readonly totalBatches?: number
  /** The same seed gives the same schedule. */
  readonly seed: number
}

/** Which group stands at one place of the schedule: `group` counts through the batches of the source. */
interface Place {
  readonly source: number
  readonly group: number
}

/**
 * Mixes datasets. The whole schedule follows from the seed, so batch i is the same in every run. A group is of one source.
 *
 * @throws EnvInputError for no sources, a weight that is not above 0, or a source whose batches differ in size (the last one
 *   may be smaller)
 */
export async function interleave(sources: readonly WeightedSource[], options: InterleaveOptions): Promise<RLDataset> {
  const { groupsPerBatch, totalBatches, seed } = parseOptions(optionsSchema, options, 'interleave')
  if (sources.length === 0) throw new EnvInputError('interleave: expected at least one source, got none')
  sources.forEach(({ weight }, k) => {
    if (!(weight > 0) || !Number.isFinite(weight))
      throw new EnvInputError(`interleave: source ${k}: expected a weight above 0, got ${weight}`)
  })
  const sizes = await Promise.all(sources.map(({ dataset }) => sizeOf(dataset)))
  const total = sources.reduce((sum, { weight }) => sum + weight, 0)
  const shares = sources.map(({ weight }) => weight / total)
  const lasting = sizes.map(({ groups }, k) => Math.floor(groups / (shares[k]! * groupsPerBatch)))
  const length = totalBatches ?? Math.max(1, Math.min(...lasting))
  const schedule = makeSchedule(shares, sizes, length * groupsPerBatch, seed)
  return {
    length,
    async getBatch(index, options) {
      checkIndex(index, length)
      const places = schedule.slice(index * groupsPerBatch, (index + 1) * groupsPerBatch)
      return Promise.all(
        places.map(({ source, group }) => groupAt(sources[source]!.dataset, sizes[source]!, group, options)),
      )
    },
  }
}

interface SourceSize {
  readonly perBatch: number
  readonly groups: number
}

async function sizeOf(dataset: RLDataset): Promise<SourceSize> {
  if (dataset.length < 1) throw new EnvInputError('interleave: a source has no batches')
  const options = { signal: neverAborted }
  const perBatch = (await dataset.getBatch(0, options)).length
  const last = dataset.length === 1 ? perBatch : (await dataset.getBatch(dataset.length - 1, options)).length
  if (perBatch === 0 || last > perBatch)
    throw new EnvInputError(
      `interleave: expected batches of one size, the last one at most that; the first has ${perBatch} groups and the last ${last}`,
    )
  return { perBatch, groups: perBatch * (dataset.length - 1) + last }
}

function makeSchedule(shares: readonly number[], sizes: readonly SourceSize[], count: number, seed: number): Place[] {
  const random = new Random(deriveSeed(seed, 'interleave'))
  const walks = sizes.map(({ groups }, source) => walk(groups, deriveSeed(seed, 'source', source)))
  return Array.from({ length: count }, () => {
    let draw = random.float()
    const found = shares.findIndex((share) => (draw -= share) < 0)
    const source = found < 0 ? shares.length - 1 : found
    return { source, group: walks[source]!.next().value }
  })
}

/** All numbers below `count` in a random order, then again in another one, without end. */
function* walk(count: number, seed: number): Generator<number, never> {
  const random = new Random(seed)
  const all = Array.from({ length: count }, (_, k) => k)
  for (;;) yield* random.shuffle(all)
}

async function groupAt(
  dataset: RLDataset,
  { perBatch }: SourceSize,
  group: number,
  options: CallOptions,
): Promise<EnvGroupBuilder> {
  const batch = Math.floor(group / perBatch)
  const builder = (await dataset.getBatch(batch, options))[group % perBatch]
  if (!builder)
    throw new EnvInputError(
      `interleave: batch ${batch} of a source has fewer than ${perBatch} groups; only the last one may`,
      { batch, perBatch },
    )
  return builder
}
