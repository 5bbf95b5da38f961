import type { Dim, Graph, Value } from '../graph/index.js'

/** How the rows of a step draw their tokens. Rows of different kinds are not mixed. */
export type DrawKind = 'plain' | 'greedy' | 'filtered'

/** What a draw gives: int32 [S] and float32 [S]. */
export interface Draw {
  readonly token: Value
  /**
   * Of the token, with the temperature applied and before any filter. Not its logarithm: that of [S] numbers differs in the last bit
   * between those that fill a SIMD register and the rest, and a row's numbers must not depend on its place.
   */
  readonly probability: Value
}

/** Block lengths are multiples of it: sums of rows that begin anywhere in a SIMD register would depend on where. */
const LANES = 16

/** Blocks of about the square root of the vocabulary. A length that divides it saves a copy; otherwise the last block is padded. */
export function blocksOf(vocabSize: number): { readonly blocks: number; readonly length: number } {
  const root = Math.sqrt(vocabSize)
  let best = Infinity
  for (let length = LANES; length <= root * 8; length += LANES) {
    const nearer = Math.abs(Math.log(length / root)) < Math.abs(Math.log(best / root))
    if (vocabSize % length === 0 && length >= root / 8 && nearer) best = length
  }
  const length = Number.isFinite(best) ? best : LANES * Math.ceil(root / LANES)
  return { blocks: Math.ceil(vocabSize / length), length }
}

/** Rows lengthened to `length` by a value. */
function pad(g: Graph, rows: Value, length: number, value: number): Value {
  const [count, given] = rows.shape as [Dim, number]
  if (length === given) return rows
  const padding = g.expand(g.constant([value], 'float32', [1, 1]), [count, length - given])
  return g.concat([rows, padding], { axis: 1 })
}

/** One block of each row: rows [S, n * length], block int32 [S, 1] -> [S, length]. */
function chosenBlocks(g: Graph, rows: Value, block: Value, length: number): Value {
  const [count, width] = rows.shape as [Dim, number]
  return g.gatherND(g.reshape(rows, [count, width / length, length]), block, { batchDims: 1 })
}

/** Number of entries of each row that are at most (or below) a limit of that row. values [S, n], limit [S, 1] -> int32 [S, 1]. */
function count(g: Graph, values: Value, limit: Value | number, relation: 'lessOrEqual' | 'less'): Value {
  return g.reduceSum(g.cast(g[relation](values, limit), 'int32'), { axes: [1], keepDims: true })
}

/** `count` as an index into the row: its end is cut off, which only a row of NaN reaches. */
function indexOf(g: Graph, values: Value, limit: Value | number, relation: 'lessOrEqual' | 'less'): Value {
  return g.min(count(g, values, limit, relation), (values.shape[1] as number) - 1)
}

const last = (g: Graph, values: Value): Value =>
  g.slice(values, { axis: 1, start: (values.shape[1] as number) - 1, end: values.shape[1] as number })

/** Below every logit, finite. */
const LOWEST = -3e38

/** Where each row is largest first, int32 [S, 1]: how many entries stand before it. ArgMax gives int64, which GPUs here cannot cast. */
function firstLargest(g: Graph, rows: Value): Value {
  const largest = g.equal(rows, g.reduceMax(rows, { axes: [1], keepDims: true }))
  return indexOf(g, g.cumSum(g.cast(largest, 'float32'), { axis: 1 }), 1, 'less')
}

/** [S, 1] -> [S]. */
const column = (g: Graph, value: Value): Value => g.reshape(value, [value.shape[0]!])

/**
 * Draws from softmax(logits * inverseTemperature) by inverting the distribution function, in two stages: a block of the
 * vocabulary by its share, then a token of the block by its share, each with a uniform number of its own. Nothing is cumulated over
 * the whole vocabulary, and the resolution is that of both numbers together.
 *
 * A token (or padding) of probability zero is never drawn: the number of sums <= u * total, with u < 1 and total the last of the
 * sums, is the index of the first sum above, and there the sum grew.
 *
 * @param logits float32 [S, V]
 * @param uniform float32 [S, 2], in [0, 1)
 * @param inverseTemperature float32 [S], > 0
 */
export function drawPlain(g: Graph, logits: Value, uniform: Value, inverseTemperature: Value): Draw {
  const [rows, vocabSize] = logits.shape as [Dim, number]
  const probabilities = g.softmax(g.mul(logits, g.reshape(inverseTemperature, [rows, 1])))
  const { blocks, length } = blocksOf(vocabSize)
  const padded = pad(g, probabilities, blocks * length, 0)
  const [first, second] = g.split(uniform, [1, 1], { axis: 1 }) as [Value, Value]

  const sums = g.cumSum(g.reduceSum(g.reshape(padded, [rows, blocks, length]), { axes: [2] }), { axis: 1 })
  const block = indexOf(g, sums, g.mul(first, last(g, sums)), 'lessOrEqual')

  const inside = chosenBlocks(g, padded, block, length)
  const partial = g.cumSum(inside, { axis: 1 })
  const offset = indexOf(g, partial, g.mul(second, last(g, partial)), 'lessOrEqual')

  const token = g.add(g.mul(block, length), offset)
  return { token: column(g, token), probability: column(g, g.gatherElements(inside, offset)) }
}

/**
 * The most probable token of each row (the first of equals), and its probability at temperature 1.
 *
 * @param logits float32 [S, V]
 */
export function drawGreedy(g: Graph, logits: Value): Draw {
  const [slots, vocabSize] = logits.shape as readonly number[] as [number, number]
  const { blocks, length } = blocksOf(vocabSize)
  const padded = pad(g, logits, blocks * length, LOWEST)
  const block = firstLargest(g, g.reduceMax(g.reshape(padded, [slots, blocks, length]), { axes: [2] }))
  const found = g.add(g.mul(block, length), firstLargest(g, chosenBlocks(g, padded, block, length)))
  const token = g.min(found, vocabSize - 1)
  return { token: column(g, token), probability: column(g, g.gatherElements(g.softmax(logits), token)) }
}

/** What a filtered draw reads besides the logits. */
export interface FilterInputs {
  /** float32 [S, 2]; the first is used. */
  readonly uniform: Value
  /** float32 [S] */
  readonly inverseTemperature: Value
  /** int32 [S], at most `candidates`; 0: no limit. */
  readonly topK: Value
  /** float32 [S], in (0, 1] */
  readonly topP: Value
}

export interface FilteredDraw extends Draw {
  /** Probability of what may be drawn, float32 [S]. */
  readonly keptMass: Value
  /** Candidates before the one that reaches topP, int32 [S]: `candidates` where the nucleus is larger than them. */
  readonly below: Value
}

/**
 * Draws after top-k, then top-p on what top-k kept (the order of Hugging Face generate): the nucleus is the shortest run of the most
 * probable tokens whose share of the mass after top-k reaches topP.
 *
 * Only the `candidates` most probable tokens are sorted. All sums run along the sorted candidates, so that a row's result does not
 * depend on their number, as long as they suffice: where `below` is `candidates` and topK is 0, draw again with more of them.
 *
 * @param logits float32 [S, V]
 * @param candidates 1 .. V
 */
export function drawFiltered(g: Graph, logits: Value, inputs: FilterInputs, candidates: number): FilteredDraw {
  const slots = logits.shape[0] as number
  const perRow = (value: Value) => g.reshape(value, [slots, 1])
  const topK = perRow(inputs.topK)
  const limited = g.greater(topK, 0)
  const probabilities = g.softmax(g.mul(logits, perRow(inputs.inverseTemperature)))
  const { indices } = g.topK(logits, candidates)
  const ids = g.gather(g.iota(logits.shape[1] as number, 'float32'), indices)
  const sorted = g.gatherElements(probabilities, indices)
  const sums = g.cumSum(sorted, { axis: 1 })

  const afterTopK = g.where(limited, g.gatherElements(sums, g.max(g.sub(topK, 1), 0)), 1)
  const below = count(g, sums, g.mul(perRow(inputs.topP), afterTopK), 'less')
  const kept = g.min(g.add(below, 1), g.where(limited, topK, candidates))
  const keptMass = g.gatherElements(sums, g.sub(kept, 1))
  const rank = indexOf(g, sums, g.mul(g.slice(inputs.uniform, { axis: 1, start: 0, end: 1 }), keptMass), 'lessOrEqual')
  return {
    token: g.cast(column(g, g.gatherElements(ids, rank)), 'int32'),
    probability: column(g, g.gatherElements(sorted, rank)),
    keptMass: g.min(column(g, keptMass), 1),
    below: column(g, below),
  }
}
