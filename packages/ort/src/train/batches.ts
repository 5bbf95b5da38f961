import type { Datum } from '@selfplay/engine'

/** Some sequences of a call, right-padded to one length, with the positions that are trained picked out. */
export interface MicroBatch {
  /** Index in the call's data of each row. */
  readonly datums: readonly number[]
  /** Padded length (seq). */
  readonly length: number
  /** Input ids, [batch, seq], padded with 0. Padding comes after the end, where causal attention never looks. */
  readonly tokens: Int32Array
  /** The n trained positions as indices into [batch * seq], row by row. */
  readonly positions: Int32Array
  /** Row of each trained position, [n]. */
  readonly rowOf: Int32Array
  /** [n] each. */
  readonly targets: Int32Array
  readonly inverseTemperature: Float32Array
  readonly weights: Float32Array
  readonly advantages: Float32Array
  readonly samplerLogprobs: Float32Array
}

export interface BatchLimits {
  /** Most padded tokens (batch x seq) of one micro-batch; a longer single sequence still goes alone. */
  readonly maxTokens: number
  /** Micro-batches that run side by side: a call that is long enough is cut into equal shares. Default 1. */
  readonly lanes?: number
}

/** A new micro-batch begins when the next sequence is shorter than this share of the current one's length ... */
const MIN_FILL = 0.7
/** ... and the current one already has this many tokens, so that padding saved outweighs another run. */
const MIN_TOKENS = 512

/** Tokens of a share that is worth a run of its own beside others. */
const MIN_SHARE = 256

interface Sequence {
  readonly datum: number
  /** Trained positions, ascending. */
  readonly trained: number[]
  /** One past the last trained position: nothing after it can influence the loss. */
  readonly length: number
}

/**
 * Cuts a call into micro-batches of similar lengths, longest first. Sequences without a trained position are left out,
 * and so is whatever follows the last trained position. The cut depends on nothing but the data and the limits.
 */
export function microBatches(data: readonly Datum[], limits: BatchLimits): MicroBatch[] {
  const sequences = data
    .map((datum, index) => sequenceOf(datum, index))
    .filter(({ length }) => length > 0)
    .sort((a, b) => b.length - a.length || a.datum - b.datum)
  return cutEqually(sequences, limits).map((rows) => pack(data, rows))
}

/** Cut such that all lanes get about as much, and none is idle while the last batch runs, where sequences allow it. */
function cutEqually(sequences: readonly Sequence[], { maxTokens, lanes = 1 }: BatchLimits): Sequence[][] {
  const total = sequences.reduce((sum, { length }) => sum + length, 0)
  const used = Math.min(lanes, Math.floor(total / MIN_SHARE))
  if (used < 2) return cut(sequences, maxTokens)
  const longest = sequences[0]!.length
  const rounds = Math.ceil(total / (used * maxTokens))
  // Padding may take more than the equal share of the tokens themselves.
  const least = longest * Math.ceil(total / (used * rounds * longest))
  for (let share = least; share <= maxTokens; share += longest) {
    const batches = cut(sequences, share)
    if (batches.length % used === 0) return batches
  }
  return cut(sequences, Math.min(least, maxTokens))
}

function cut(sequences: readonly Sequence[], maxTokens: number): Sequence[][] {
  const batches: Sequence[][] = []
  let rows: Sequence[] = []
  for (const sequence of sequences) {
    const length = rows[0]?.length ?? 0
    const full = (rows.length + 1) * length > maxTokens
    const uneven = sequence.length < MIN_FILL * length && rows.length * length >= MIN_TOKENS
    if (rows.length > 0 && (full || uneven)) {
      batches.push(rows)
      rows = []
    }
    rows.push(sequence)
  }
  if (rows.length > 0) batches.push(rows)
  return batches
}

function sequenceOf(datum: Datum, index: number): Sequence {
  const trained: number[] = []
  for (let t = 0; t < datum.tokens.length; t++) if (!datum.weights || datum.weights[t] !== 0) trained.push(t)
  return { datum: index, trained, length: (trained.at(-1) ?? -1) + 1 }
}

function pack(data: readonly Datum[], rows: readonly Sequence[]): MicroBatch {
  const length = rows[0]!.length
  const n = rows.reduce((sum, { trained }) => sum + trained.length, 0)
  const batch = {
    datums: rows.map(({ datum }) => datum),
    length,
    tokens: new Int32Array(rows.length * length),
    positions: new Int32Array(n),
    rowOf: new Int32Array(n),
    targets: new Int32Array(n),
    inverseTemperature: new Float32Array(n),
    weights: new Float32Array(n).fill(1),
    advantages: new Float32Array(n),
    samplerLogprobs: new Float32Array(n),
  }
  let i = 0
  rows.forEach((row, b) => {
    const datum = data[row.datum]!
    batch.tokens.set(datum.tokens.subarray(0, row.length), b * length)
    for (const t of row.trained) {
      batch.positions[i] = b * length + t
      batch.rowOf[i] = b
      batch.targets[i] = datum.targets[t]!
      batch.inverseTemperature[i] = 1 / (datum.temperature ?? 1)
      if (datum.weights) batch.weights[i] = datum.weights[t]!
      if (datum.advantages) batch.advantages[i] = datum.advantages[t]!
      if (datum.samplerLogprobs) batch.samplerLogprobs[i] = datum.samplerLogprobs[t]!
      i++
    }
  })
  return batch
}

/** Which trained position has a loss that is not finite: of several, the first of the datum that comes first in the call; -1: none. */
export function nonFiniteAt({ datums, rowOf }: MicroBatch, losses: Float32Array): number {
  const datumAt = (i: number) => datums[rowOf[i]!]!
  let first = -1
  losses.forEach((value, i) => {
    if (!Number.isFinite(value) && (first < 0 || datumAt(i) < datumAt(first))) first = i
  })
  return first
}

/** Spreads values of trained positions [n] over one array per datum, [T]; other positions keep their 0. */
export function scatter(batch: MicroBatch, values: ArrayLike<number>, into: readonly Float32Array[]): void {
  for (let i = 0; i < batch.positions.length; i++) {
    const row = batch.rowOf[i]!
    into[batch.datums[row]!]![batch.positions[i]! - row * batch.length] = values[i]!
  }
}
