import { z } from 'zod'
import { EnvInputError } from './errors.js'
import type { EnvGroupBuilder } from './group.js'
import { parseOptions } from './options.js'
import { Random, deriveSeed } from './random.js'
import type { CallOptions } from './types.js'

/** Batches of groups. The same index always gives the same batch, so a run can go on from a number. */
export interface RLDataset {
  /** The builders of batch `index`, 0 <= index < length. A call that is aborted is not waited for. */
  getBatch(index: number, options: CallOptions): readonly EnvGroupBuilder[] | Promise<readonly EnvGroupBuilder[]>
  /** Number of batches. */
  readonly length: number
}

const optionsSchema = z.strictObject({
  batchSize: z.int().positive(),
  keepTail: z.boolean().default(true),
  epochs: z.int().positive().default(1),
  shuffleSeed: z.int().optional(),
})

export interface DatasetOptions {
  /** Groups per batch. */
  readonly batchSize: number
  /** Whether the rows left over at the end make a smaller batch. Default true. */
  readonly keepTail?: boolean
  /** How often all rows are gone through. Default 1. */
  readonly epochs?: number
  /** Shuffles the rows, in each epoch otherwise. Default: the order given. */
  readonly shuffleSeed?: number
}

/**
 * A dataset from rows: one group per row.
 *
 * @param makeGroup makes the builder of a row; called each time that its batch is asked for
 * @throws EnvInputError for no rows, or fewer rows than one batch without `keepTail`
 */
export function datasetOf<Row>(
  rows: readonly Row[],
  makeGroup: (row: Row, index: number) => EnvGroupBuilder,
  options: DatasetOptions,
): RLDataset {
  const { batchSize, keepTail, epochs, shuffleSeed } = parseOptions(optionsSchema, options, 'datasetOf')
  if (rows.length === 0) throw new EnvInputError('datasetOf: expected at least one row, got none')
  const perEpoch = keepTail ? Math.ceil(rows.length / batchSize) : Math.floor(rows.length / batchSize)
  if (perEpoch === 0)
    throw new EnvInputError(
      `datasetOf: ${rows.length} rows make no batch of ${batchSize}; use a smaller batchSize, or keepTail`,
    )
  const natural = rows.map((_, index) => index)
  const orderOf = (epoch: number) =>
    shuffleSeed === undefined ? natural : new Random(deriveSeed(shuffleSeed, 'epoch', epoch)).shuffle(natural)
  const length = perEpoch * epochs
  return {
    length,
    getBatch(index) {
      checkIndex(index, length)
      const start = (index % perEpoch) * batchSize
      const chosen = orderOf(Math.floor(index / perEpoch)).slice(start, start + batchSize)
      return chosen.map((row) => makeGroup(rows[row]!, row))
    },
  }
}

/** @throws EnvInputError */
export function checkIndex(index: number, length: number): void {
  if (!Number.isInteger(index) || index < 0 || index >= length)
    throw new EnvInputError(`getBatch: expected an index from 0 to ${length - 1}, got ${index}`, { index, length })
}
