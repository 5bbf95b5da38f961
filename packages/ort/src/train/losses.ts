import { InvalidInputError, type Datum, type Loss, type Normalisation } from '@selfplay/engine'
import type { Graph, Value } from '../graph/index.js'
import type { MicroBatch } from './batches.js'

/** A loss that is built into the graph. */
export type GraphLoss = Exclude<Loss, { name: 'custom' }>

/** What the loss of n trained positions is computed from, float32. */
export interface LossInputs {
  /** [n], under the weights being trained. */
  readonly logprobs: Value
  /** [n], times the factor of the normalisation. */
  readonly weights: Value
  /** [n] */
  readonly advantages: Value
  /** [n] */
  readonly samplerLogprobs: Value
  /** [batch, n]: 1 / (number of trained positions of the row) where the position is of the row, else 0. */
  readonly rowMean: Value
  /** [n, batch]: 1 where the position is of the row, else 0. */
  readonly rowOf: Value
}

/** The inputs that a loss reads besides logprobs and weights. */
const NEEDS: Record<GraphLoss['name'], readonly (keyof LossInputs)[]> = {
  cross_entropy: [],
  importance_sampling: ['advantages', 'samplerLogprobs'],
  ppo: ['advantages', 'samplerLogprobs'],
  cispo: ['advantages', 'samplerLogprobs'],
  dro: ['advantages', 'samplerLogprobs'],
  gspo: ['advantages', 'samplerLogprobs', 'rowMean', 'rowOf'],
}

/** Names what a loss was asked for but the data does not carry. */
export function checkLossInputs(data: readonly Datum[], loss: Loss): void {
  if (loss.name === 'custom') return
  for (const field of ['advantages', 'samplerLogprobs'] as const) {
    if (!NEEDS[loss.name].includes(field)) continue
    const datum = data.findIndex((one) => !one[field])
    if (datum >= 0) {
      throw new InvalidInputError(`loss ${loss.name} needs ${field} on every datum; datum ${datum} has none`, {
        datum,
        field,
        loss: loss.name,
      })
    }
  }
}

/** Declares the inputs of a loss for n positions in a batch of rows, named as in {@link lossFeeds}. */
export function lossInputs(g: Graph, loss: GraphLoss, logprobs: Value): LossInputs {
  const needed = (name: keyof LossInputs, shape: readonly string[]) =>
    NEEDS[loss.name].includes(name) ? g.input(name, 'float32', shape) : logprobs
  return {
    logprobs,
    weights: g.input('weights', 'float32', ['n']),
    advantages: needed('advantages', ['n']),
    samplerLogprobs: needed('samplerLogprobs', ['n']),
    rowMean: needed('rowMean', ['batch', 'n']),
    rowOf: needed('rowOf', ['n', 'batch']),
  }
}

/** The loss of each trained position, [n]; the formulas are those of the contract (`Loss` in the engine package). */
export function tokenLosses(g: Graph, loss: GraphLoss, inputs: LossInputs): Value {
  const { logprobs, weights, advantages, samplerLogprobs } = inputs
  if (loss.name === 'cross_entropy') return g.neg(g.mul(weights, logprobs))
  const difference = g.sub(logprobs, samplerLogprobs)
  const gain = () => {
    switch (loss.name) {
      case 'importance_sampling':
        return g.mul(g.exp(difference), advantages)
      case 'ppo':
        return clippedGain(g, g.exp(difference), advantages, loss.low ?? 0.8, loss.high ?? 1.2)
      case 'cispo': {
        const ratio = g.clip(g.exp(difference), { min: loss.low ?? 0, max: loss.high ?? 4 })
        return g.mul(g.mul(g.stopGradient(ratio), advantages), logprobs)
      }
      case 'dro':
        return g.sub(g.mul(advantages, logprobs), g.mul(g.square(difference), (loss.beta ?? 0.05) / 2))
      case 'gspo': {
        const clip = loss.clip ?? 3e-4
        const rowRatio = g.exp(g.matmul(inputs.rowMean, g.reshape(difference, ['n', 1])))
        const ratio = g.reshape(g.matmul(inputs.rowOf, rowRatio), ['n'])
        return clippedGain(g, ratio, advantages, 1 - clip, 1 + clip)
      }
    }
  }
  return g.neg(g.mul(weights, gain()))
}

/** min(r A, clip(r, low, high) A). */
function clippedGain(g: Graph, ratio: Value, advantages: Value, low: number, high: number): Value {
  return g.min(g.mul(ratio, advantages), g.mul(g.clip(ratio, { min: low, max: high }), advantages))
}

/** The arrays behind {@link lossInputs} for one micro-batch; `scales` is the factor on each datum's token losses. */
export function lossFeeds(
  loss: GraphLoss,
  batch: MicroBatch,
  scales: ArrayLike<number>,
): Partial<Record<keyof LossInputs, Float32Array>> {
  const n = batch.positions.length
  const feeds: Partial<Record<keyof LossInputs, Float32Array>> = {
    weights: batch.weights.map((weight, i) => weight * scales[batch.datums[batch.rowOf[i]!]!]!),
  }
  if (NEEDS[loss.name].includes('advantages')) feeds.advantages = batch.advantages
  if (NEEDS[loss.name].includes('samplerLogprobs')) feeds.samplerLogprobs = batch.samplerLogprobs
  if (loss.name === 'gspo') {
    const rows = batch.datums.length
    const counts = new Float32Array(rows)
    for (const row of batch.rowOf) counts[row]!++
    feeds.rowMean = new Float32Array(rows * n)
    feeds.rowOf = new Float32Array(n * rows)
    batch.rowOf.forEach((row, i) => {
      feeds.rowMean![row * n + i] = 1 / counts[row]!
      feeds.rowOf![i * rows + row] = 1
    })
  }
  return feeds
}

/** The factor that a normalisation puts on the token losses of each datum of a call, float64 [data]. */
export function normalisationScales(data: readonly Datum[], normalise: Normalisation = 'sum'): Float64Array {
  const counts = data.map(({ tokens, weights }) =>
    weights ? weights.reduce((n, weight) => n + (weight === 0 ? 0 : 1), 0) : tokens.length,
  )
  const scales = new Float64Array(data.length)
  if (normalise === 'sum') return scales.fill(1)
  if (normalise === 'tokenMean')
    return scales.fill(
      1 /
        Math.max(
          1,
          counts.reduce((a, b) => a + b, 0),
        ),
    )
  if (normalise === 'sequenceMean') {
    const sequences = counts.filter((count) => count > 0).length
    return scales.map((_, d) => (counts[d] ? 1 / (counts[d] * sequences) : 0))
  }
  if (!(normalise.fixed > 0 && Number.isFinite(normalise.fixed))) {
    throw new InvalidInputError(`normalise.fixed must be a finite number > 0, got ${normalise.fixed}`)
  }
  return scales.fill(1 / normalise.fixed)
}
