import { z } from 'zod'
import { RewardOptionsError } from '../errors.js'
import { parseOptions, show } from '../options.js'

/** Score that a player rated `rating` is expected to reach against `opponent`, 1 a win, 1/2 a draw: 1 / (1 + 10^((opponent - rating)/400)). */
export const eloExpected = (rating: number, opponent: number): number => 1 / (1 + 10 ** ((opponent - rating) / 400))

/** A game from the first player's side: 1 won, 1/2 drawn, 0 lost. Anything between counts as a share. */
export type GameScore = number

/**
 * What the first player gains by a game and the second loses: k (score - expected score) (Elo 1978).
 *
 * @throws RewardOptionsError when `score` is not in [0, 1]
 */
export function eloGain(first: number, second: number, score: GameScore, k = 32): number {
  if (!(score >= 0 && score <= 1))
    throw new RewardOptionsError(
      `a game's score for its first player: expected 1 (won), 0.5 (drawn), 0 (lost) or between, got ${show(score)}`,
      { score },
    )
  return k * (score - eloExpected(first, second))
}

/** Plain data, fit for a checkpoint. */
export interface EloState {
  readonly formatVersion: 1
  readonly ratings: Readonly<Record<string, number>>
  readonly games: Readonly<Record<string, number>>
}

export interface EloOptions {
  /** Largest gain of one game. Default 32. */
  readonly k?: number
  /** Rating of a player who has not played. Default 1500. */
  readonly initial?: number
  /** Where to go on from. */
  readonly state?: EloState
}

const numbers = z.record(z.string(), z.number())
const schema = z.strictObject({
  k: z.number().positive().default(32),
  initial: z.number().default(1500),
  state: z.strictObject({ formatVersion: z.literal(1), ratings: numbers, games: numbers }).optional(),
})

/** Ratings that follow the games as they come. The sum of all ratings moves only by newcomers. */
export class EloRatings {
  readonly #k: number
  readonly #initial: number
  readonly #ratings: Map<string, number>
  readonly #games: Map<string, number>

  /** @throws RewardOptionsError, also for a state of a newer format */
  constructor(options: EloOptions = {}) {
    const { k, initial, state } = parseOptions(schema, options, 'EloRatings')
    this.#k = k
    this.#initial = initial
    this.#ratings = new Map(Object.entries(state?.ratings ?? {}))
    this.#games = new Map(Object.entries(state?.games ?? {}))
  }

  rating(player: string): number {
    return this.#ratings.get(player) ?? this.#initial
  }

  games(player: string): number {
    return this.#games.get(player) ?? 0
  }

  /**
   * Records a game; what the first player gains, the second loses.
   *
   * @returns that gain
   * @throws RewardOptionsError for a score outside [0, 1], or a player against itself
   */
  record(first: string, second: string, score: GameScore): number {
    if (first === second)
      throw new RewardOptionsError(`a game needs two players, got ${show(first)} twice; leave mirror games out`, {
        first,
      })
    const [before, other] = [this.rating(first), this.rating(second)]
    const gain = eloGain(before, other, score, this.#k)
    this.#ratings.set(first, before + gain)
    this.#ratings.set(second, other - gain)
    for (const player of [first, second]) this.#games.set(player, this.games(player) + 1)
    return gain
  }

  /** Players from the best down; equals by name. */
  ranking(): { readonly player: string; readonly rating: number; readonly games: number }[] {
    return [...this.#ratings]
      .map(([player, rating]) => ({ player, rating, games: this.games(player) }))
      .sort((x, y) => y.rating - x.rating || (x.player < y.player ? -1 : 1))
  }

  toJSON(): EloState {
    return {
      formatVersion: 1,
      ratings: Object.fromEntries(this.#ratings),
      games: Object.fromEntries(this.#games),
    }
  }
}
