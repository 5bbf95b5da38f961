import type { Datum } from '../datum.js'
import type { Loss, Normalisation } from '../loss.js'

/** A loss and its derivative with respect to every log-prob, float64 arithmetic. */
export interface ReferenceLoss {
  readonly loss: number
  /** [datum][t]. */
  readonly gradient: number[][]
}

/** Per-token loss and derivative for one datum; both include the weight. */
interface TokenLosses {
  readonly values: number[]
  readonly derivatives: number[]
}

const clip = (x: number, low: number, high: number) => Math.min(Math.max(x, low), high)

/**
 * The formulas of the contract in plain TypeScript, one number at a time: what a training core is compared with.
 *
 * @param logprobs log-probs of the targets, [datum][t].
 */
export function referenceLoss(
  loss: Exclude<Loss, { name: 'custom' }>,
  data: readonly Datum[],
  logprobs: readonly ArrayLike<number>[],
): ReferenceLoss {
  const perDatum = data.map((datum, d) => tokenLosses(loss, datum, Array.from(logprobs[d] ?? [])))
  const counts = data.map((datum) => trainedCount(datum))
  const scales = scalesOf(loss.normalise ?? 'sum', counts)
  let total = 0
  const gradient = perDatum.map(({ values, derivatives }, d) => {
    for (const value of values) total += value * scales[d]!
    return derivatives.map((derivative) => derivative * scales[d]!)
  })
  return { loss: total, gradient }
}

function trainedCount(datum: Datum): number {
  return datum.weights ? datum.weights.reduce((n, weight) => n + (weight === 0 ? 0 : 1), 0) : datum.tokens.length
}

/** The factor on each datum's summed token losses. */
function scalesOf(normalise: Normalisation, counts: readonly number[]): number[] {
  if (normalise === 'sum') return counts.map(() => 1)
  if (normalise === 'tokenMean') {
    const tokens = counts.reduce((a, b) => a + b, 0)
    return counts.map(() => (tokens === 0 ? 0 : 1 / tokens))
  }
  if (normalise === 'sequenceMean') {
    const sequences = counts.filter((count) => count > 0).length
    return counts.map((count) => (count === 0 ? 0 : 1 / count / sequences))
  }
  return counts.map(() => 1 / normalise.fixed)
}

function tokenLosses(loss: Exclude<Loss, { name: 'custom' }>, datum: Datum, logprobs: number[]): TokenLosses {
  const weights = datum.weights ? Array.from(datum.weights) : logprobs.map(() => 1)
  if (loss.name === 'gspo') return gspoLosses(loss.clip ?? 3e-4, datum, logprobs, weights)
  const values: number[] = []
  const derivatives: number[] = []
  logprobs.forEach((logprob, t) => {
    const weight = weights[t]!
    const [value, derivative] = weight === 0 ? [0, 0] : tokenLoss(loss, datum, logprob, t)
    values.push(weight * value)
    derivatives.push(weight * derivative)
  })
  return { values, derivatives }
}

function tokenLoss(
  loss: Exclude<Loss, { name: 'custom' | 'gspo' }>,
  datum: Datum,
  logprob: number,
  t: number,
): [value: number, derivative: number] {
  if (loss.name === 'cross_entropy') return [-logprob, -1]
  const advantage = datum.advantages![t]!
  const difference = logprob - datum.samplerLogprobs![t]!
  const ratio = Math.exp(difference)
  switch (loss.name) {
    case 'importance_sampling':
      return [-ratio * advantage, -ratio * advantage]
    case 'ppo': {
      const clipped = clip(ratio, loss.low ?? 0.8, loss.high ?? 1.2)
      return ratio * advantage <= clipped * advantage
        ? [-ratio * advantage, -ratio * advantage]
        : [-clipped * advantage, 0]
    }
    case 'cispo': {
      const factor = clip(ratio, loss.low ?? 0, loss.high ?? 4) * advantage
      return [-factor * logprob, -factor]
    }
    case 'dro': {
      const beta = loss.beta ?? 0.05
      return [-(advantage * logprob - (beta / 2) * difference ** 2), -(advantage - beta * difference)]
    }
  }
}

function gspoLosses(width: number, datum: Datum, logprobs: number[], weights: number[]): TokenLosses {
  const trained = weights.map((weight) => weight !== 0)
  const count = trained.filter(Boolean).length
  const meanDifference =
    logprobs.reduce((sum, logprob, t) => sum + (trained[t] ? logprob - datum.samplerLogprobs![t]! : 0), 0) /
    Math.max(count, 1)
  const ratio = Math.exp(meanDifference)
  const clipped = clip(ratio, 1 - width, 1 + width)
  // Derivative of the sum of token losses with respect to the one ratio, then through it to each log-prob.
  let byRatio = 0
  const values = weights.map((weight, t) => {
    if (weight === 0) return 0
    const advantage = datum.advantages![t]!
    const unclipped = ratio * advantage <= clipped * advantage
    if (unclipped) byRatio -= weight * advantage
    return -weight * (unclipped ? ratio : clipped) * advantage
  })
  const derivatives = trained.map((isTrained) => (isTrained ? (byRatio * ratio) / count : 0))
  return { values, derivatives }
}
