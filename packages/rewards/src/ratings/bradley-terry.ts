import { z } from 'zod'
import { RewardOptionsError, RewardsError } from '../errors.js'
import { parseOptions, show } from '../options.js'
import type { GameScore } from './elo.js'

/** Games of two players that ended alike. */
export interface GameRecord {
  readonly first: string
  readonly second: string
  /** For the first: 1 won, 0.5 drawn, 0 lost. */
  readonly score: GameScore
  /** How many such games. Default 1. */
  readonly count?: number
}

export interface BradleyTerryOptions {
  /**
   * Drawn games against an average opponent that each player is credited with, so that one who never lost (or never won)
   * still has a rating. Default 1. 0 is plain maximum likelihood.
   */
  readonly priorDraws?: number
  /** Mean of the ratings. Default 1500. */
  readonly mean?: number
  /** Ends when no rating moves by more points than this. Default 1e-6. */
  readonly tolerance?: number
  /** Default 10,000. */
  readonly maxIterations?: number
}

const schema = z.strictObject({
  priorDraws: z.number().nonnegative().default(1),
  mean: z.number().default(1500),
  tolerance: z.number().positive().default(1e-6),
  maxIterations: z.int().positive().default(10_000),
})

/** The games have no maximum-likelihood ratings, or they were not found. */
export class RatingsDivergedError extends RewardsError {
  constructor(message: string, details?: Record<string, unknown>) {
    super('ratings_diverged', message, details)
  }
}

const POINTS = 400 / Math.LN10

/**
 * Ratings under which all games together are most probable (Bradley and Terry 1952), on Elo's scale: 400 points are odds of 10
 * to 1. The order of the games does not count; a draw is half a win. Fitted by minorisation-maximisation (Hunter 2004).
 *
 * @returns rating by player
 * @throws RewardOptionsError for games that are none; RatingsDivergedError when it does not settle, as without a prior where some
 *   players never lost against the others
 */
export function bradleyTerry(games: readonly GameRecord[], options: BradleyTerryOptions = {}): Map<string, number> {
  const { priorDraws, mean, tolerance, maxIterations } = parseOptions(schema, options, 'bradleyTerry')
  const { players, wins, met } = tally(games)
  const n = players.length
  if (n === 0) return new Map()
  let log = new Float64Array(n)
  for (let iteration = 0; iteration < maxIterations; iteration++) {
    const next = log.map((own, i) => {
      let weight = 0
      for (const [j, count] of met[i]!) weight += count / (Math.exp(own) + Math.exp(log[j]!))
      weight += priorDraws / (Math.exp(own) + 1)
      return Math.log(wins[i]! + priorDraws / 2) - Math.log(weight)
    })
    const middle = priorDraws > 0 ? likeliestShift(next) : average(next)
    const moved = next.map((value) => value - middle)
    const change = Math.max(...moved.map((value, i) => Math.abs(value - log[i]!)))
    log = moved
    if (!Number.isFinite(change)) break
    if (change * POINTS <= tolerance) {
      const centre = average(log)
      return new Map(players.map((player, i) => [player, mean + (log[i]! - centre) * POINTS]))
    }
  }
  throw new RatingsDivergedError(
    `the ratings have not settled in ${maxIterations} rounds: without a prior every player must have won and lost against the rest; ` +
      'set priorDraws above 0, or raise maxIterations',
    { players: n, priorDraws },
  )
}

const average = (values: Float64Array): number => values.reduce((sum, value) => sum + value, 0) / values.length

/**
 * The strength s of the average opponent at which everyone's draws against it are most probable: where the expected scores
 * sum to half a point each. The games themselves do not care, so this can be found at once, by bisection.
 */
function likeliestShift(log: Float64Array): number {
  let low = Math.min(...log)
  let high = Math.max(...log)
  for (let k = 0; k < 60 && high > low; k++) {
    const middle = (low + high) / 2
    const excess = log.reduce((sum, value) => sum + 1 / (1 + Math.exp(middle - value)) - 0.5, 0)
    if (excess > 0) low = middle
    else high = middle
  }
  return (low + high) / 2
}

/** Wins (a draw is half of one) of each player, and how often each met each other. */
function tally(games: readonly GameRecord[]) {
  const places = new Map<string, number>()
  const wins: number[] = []
  const met: Map<number, number>[] = []
  const placeOf = (player: string): number => {
    let place = places.get(player)
    if (place === undefined) {
      place = places.size
      places.set(player, place)
      wins.push(0)
      met.push(new Map())
    }
    return place
  }
  for (const { first, second, score, count = 1 } of games) {
    if (first === second || !(score >= 0 && score <= 1) || !(count >= 0 && Number.isFinite(count)))
      throw new RewardOptionsError(
        `bradleyTerry: expected two players, a score in [0, 1] and a count of at least 0, got ${show({ first, second, score, count })}`,
      )
    const [i, j] = [placeOf(first), placeOf(second)]
    wins[i]! += score * count
    wins[j]! += (1 - score) * count
    for (const [x, y] of [
      [i, j],
      [j, i],
    ] as const)
      met[x]!.set(y, (met[x]!.get(y) ?? 0) + count)
  }
  return { players: [...places.keys()], wins, met }
}
