import { RewardOptionsError } from '../errors.js'
import { show } from '../options.js'

export interface Results {
  readonly wins: number
  readonly losses: number
  /** Default 0. */
  readonly draws?: number
}

export interface WinRate {
  /** (wins + draws / 2) / games. */
  readonly rate: number
  /** Bounds of the confidence interval, within [0, 1]. */
  readonly low: number
  readonly high: number
  readonly games: number
}

/**
 * Win rate with its Wilson score interval (Wilson 1927), which also holds for few games and for rates near 0 and 1. A draw is
 * half a win; draws vary less than wins and losses do, so with many of them the interval is wider than it need be.
 *
 * @param confidence share of such intervals that hold the true rate, in (0, 1). Default 0.95
 * @throws RewardOptionsError for counts that are none, no games at all, or a confidence outside (0, 1)
 */
export function winRate({ wins, losses, draws = 0 }: Results, confidence = 0.95): WinRate {
  const games = wins + losses + draws
  if (![wins, losses, draws].every((count) => count >= 0 && Number.isFinite(count)) || games === 0)
    throw new RewardOptionsError(
      `winRate: expected counts of at least 0 and at least one game, got ${show({ wins, losses, draws })}`,
    )
  if (!(confidence > 0 && confidence < 1))
    throw new RewardOptionsError(`winRate: expected a confidence between 0 and 1, got ${show(confidence)}`)
  const rate = (wins + draws / 2) / games
  const z = normalQuantile((1 + confidence) / 2)
  const share = (z * z) / games
  const centre = (rate + share / 2) / (1 + share)
  const reach = (z * Math.sqrt((rate * (1 - rate)) / games + share / (4 * games))) / (1 + share)
  return { rate, low: Math.max(0, centre - reach), high: Math.min(1, centre + reach), games }
}

/** Phi(x) - 1/2 by its series in odd powers of x, which converges everywhere; exact to a few units in the last place for |x| < 8. */
function normalCentre(x: number): number {
  let term = x
  let sum = x
  for (let k = 3; Math.abs(term) > Math.abs(sum) * 1e-17; k += 2) {
    term *= (x * x) / k
    sum += term
  }
  return (sum * Math.exp((-x * x) / 2)) / Math.sqrt(2 * Math.PI)
}

/** The x with Phi(x) = p, for p in [0.5, 1), by bisection. */
function normalQuantile(p: number): number {
  let low = 0
  let high = 8.3 // beyond it 1 - p is below the spacing of doubles
  for (let k = 0; k < 60; k++) {
    const middle = (low + high) / 2
    if (normalCentre(middle) < p - 0.5) low = middle
    else high = middle
  }
  return (low + high) / 2
}
