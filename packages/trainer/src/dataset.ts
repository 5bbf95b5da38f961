import { withDeadline } from './deadline.js'
import { DatasetError } from './errors.js'
import { Random, deriveSeed } from '@selfplay/env'

/** Rows to train on. An async one must give its rows anew each time it is iterated when there are several epochs. */
export type Dataset<Row> = readonly Row[] | AsyncIterable<Row>

/** A row with its place. */
export interface RowAt<Row> {
  readonly row: Row
  /** Index within the data set, from 0. */
  readonly index: number
  /** From 0. */
  readonly epoch: number
}

/** The rows of one update. */
export interface Batch<Row> {
  readonly rows: readonly RowAt<Row>[]
  readonly epoch: number
  /** No more rows in this epoch. */
  readonly endOfEpoch: boolean
  /** No more rows at all. */
  readonly last: boolean
}

export interface BatchOptions {
  readonly epochs: number
  readonly batchSize: number
  readonly order: 'fixed' | 'shuffled'
  readonly seed: number
  /** Batches to leave out at the start: the cursor of a checkpoint. Default 0. */
  readonly skip?: number
  /** Ends the wait for a row that does not come. */
  readonly signal?: AbortSignal
}

const isArray = <Row>(dataset: Dataset<Row>): dataset is readonly Row[] => Array.isArray(dataset)

/** Batches of the whole run, or null when an async data set keeps its length to itself. The last one of an epoch may be short. */
export function batchCount<Row>(dataset: Dataset<Row>, { epochs, batchSize }: BatchOptions): number | null {
  return isArray(dataset) ? epochs * Math.ceil(dataset.length / batchSize) : null
}

/** The order of one epoch: a permutation that only (seed, epoch) decides. */
export function epochOrder(length: number, options: Pick<BatchOptions, 'order' | 'seed'>, epoch: number): number[] {
  const indices = Array.from({ length }, (_, i) => i)
  return options.order === 'fixed' ? indices : new Random(deriveSeed(options.seed, 'order', epoch)).shuffle(indices)
}

/**
 * The batches of a run, epoch after epoch.
 *
 * @throws DatasetError when there is no row, the source throws, or an async data set has none left in a later epoch or cannot be shuffled.
 */
export async function* batches<Row>(dataset: Dataset<Row>, options: BatchOptions): AsyncGenerator<Batch<Row>> {
  let toSkip = options.skip ?? 0
  for (let epoch = 0; epoch < options.epochs; epoch++) {
    const lastEpoch = epoch === options.epochs - 1
    for await (const { rows, endOfEpoch } of epochBatches(dataset, options, epoch)) {
      if (toSkip > 0) toSkip--
      else yield { rows, epoch, endOfEpoch, last: endOfEpoch && lastEpoch }
    }
  }
}

async function* epochBatches<Row>(dataset: Dataset<Row>, options: BatchOptions, epoch: number) {
  let rows: RowAt<Row>[] = []
  let seen = false
  for await (const row of epochRows(dataset, options, epoch)) {
    // A full batch is given out when the row after it is known: only then is it clear whether it ends the epoch.
    if (rows.length === options.batchSize) {
      yield { rows, endOfEpoch: false }
      rows = []
    }
    rows.push(row)
    seen = true
  }
  if (!seen) throw noRows(epoch)
  yield { rows, endOfEpoch: true }
}

async function* epochRows<Row>(dataset: Dataset<Row>, options: BatchOptions, epoch: number) {
  if (isArray(dataset)) {
    for (const index of epochOrder(dataset.length, options, epoch)) yield { row: dataset[index] as Row, index, epoch }
    return
  }
  if (options.order === 'shuffled') {
    throw new DatasetError('an async data set has no known length to shuffle: set order to "fixed", or pass an array')
  }
  const rows = dataset[Symbol.asyncIterator]()
  try {
    for (let index = 0; ; index++) {
      const { done, value } = await nextRow(rows, { index, epoch }, options.signal)
      if (done === true) return
      yield { row: value, index, epoch }
    }
  } finally {
    // Not waited for: a source that hangs would hold it.
    void Promise.resolve(rows.return?.()).catch(() => {})
  }
}

/** @throws DatasetError with what the source threw as its cause; the signal's reason when aborted. */
async function nextRow<Row>(
  rows: AsyncIterator<Row>,
  place: { readonly index: number; readonly epoch: number },
  signal: AbortSignal = new AbortController().signal,
): Promise<IteratorResult<Row>> {
  try {
    return await withDeadline(() => rows.next(), { seconds: Infinity, signal, what: 'the data set' })
  } catch (cause) {
    if (signal.aborted) throw cause
    const { index, epoch } = place
    throw new DatasetError(`the data set threw at row ${index} of epoch ${epoch + 1}: ${String(cause)}`, place, {
      cause,
    })
  }
}

function noRows(epoch: number): DatasetError {
  return epoch === 0
    ? new DatasetError('the data set has no rows: expected at least one', { epoch })
    : new DatasetError(
        `the data set gave no rows in epoch ${epoch + 1}: it must give them anew each time it is iterated ` +
          '(a generator object gives them once; pass an object whose [Symbol.asyncIterator] starts a new one)',
        { epoch },
      )
}
