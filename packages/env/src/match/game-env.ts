import { textOf, user, type Message } from '@selfplay/renderers'
import { z } from 'zod'
import { EnvContractError, IllegalMoveError, EnvInputError } from '../errors.js'
import type { MessageEnv, MessageStepResult, PlayerView, StepContext } from '../message-env.js'
import type { MetricReducers } from '../metrics.js'
import { parseOptions } from '../options.js'
import type { MessagePolicy } from '../policies/policy.js'
import { Random, deriveSeed } from '../random.js'
import type { CallOptions } from '../types.js'
import { playerViewOf, type Game } from './game.js'
import { Seat, type SeatAnswer } from './seat.js'

const optionsSchema = z.strictObject({
  seat: z.int().min(0),
  seed: z.int(),
  illegalMoveReward: z.number().default(-1),
  opponentTimeoutSeconds: z.number().positive().nullable().default(300),
})

export interface GameEnvOptions {
  /** The seat that the policy takes. */
  readonly seat: number
  /** Who takes the other seats, by seat. */
  readonly opponents: Readonly<Record<number, MessagePolicy>>
  /** Seeds the game and the opponents. */
  readonly seed: number
  /** Default -1. */
  readonly illegalMoveReward?: number
  /** Most seconds for one move of an opponent; null is no limit. Default 300. */
  readonly opponentTimeoutSeconds?: number | null
  /**
   * Who moves in place of an opponent whose move is not legal, such as a model that is still learning the game. It is told where the game
   * stands, not what was said before. Such moves are counted in the metric `substituted_moves`. Default: nobody.
   */
  readonly substitute?: MessagePolicy
}

/**
 * A game seen from one seat, the others being played by policies. The reward is the seat's score. An opponent that fails is a
 * failure of the environment, and no result for the seat; one whose move is not legal may have a `substitute`.
 */
export class GameEnv<State, Move> implements MessageEnv {
  readonly game: Game<State, Move>
  readonly seat: number
  readonly illegalMoveReward: number
  readonly metricReducers: MetricReducers = { illegal_move: 'rate' }
  readonly #opponents = new Map<number, Seat<State, Move>>()
  readonly #substitutes = new Map<number, Seat<State, Move>>()
  #substituted = 0
  readonly #random: Random
  #state: State

  constructor(game: Game<State, Move>, { opponents, substitute, ...rest }: GameEnvOptions) {
    const { seat, seed, illegalMoveReward, opponentTimeoutSeconds } = parseOptions(optionsSchema, rest, 'GameEnv')
    if (seat >= game.seats.length)
      throw new EnvInputError(`GameEnv: ${game.name} has seats 0 to ${game.seats.length - 1}, got ${seat}`)
    game.seats.forEach((name, index) => {
      const policy = opponents[index]
      if (index === seat) return
      if (!policy) throw new EnvInputError(`GameEnv: nobody plays seat ${index} (${name}); add it to opponents`)
      const common = { seat: index, turnTimeoutSeconds: opponentTimeoutSeconds, illegalMoveRetries: 0 }
      this.#opponents.set(index, new Seat(game, { ...common, policy, seed: deriveSeed(seed, 'seat', index) }))
      if (!substitute) return
      const own = deriveSeed(seed, 'substitute', index)
      this.#substitutes.set(index, new Seat(game, { ...common, policy: substitute, seed: own }))
    })
    this.game = game
    this.seat = seat
    this.illegalMoveReward = illegalMoveReward
    this.#random = new Random(deriveSeed(seed, 'game'))
    this.#state = game.start(this.#random)
  }

  async initialObservation({ signal }: CallOptions): Promise<readonly Message[]> {
    await this.#advance(signal)
    if (this.#score() !== null)
      throw new EnvContractError(`${this.game.name} was over before seat ${this.seat} had to move`)
    return [...this.game.opening(this.seat, this.#state), user(this.game.observe(this.#state, this.seat))]
  }

  async step(reply: Message, { signal }: StepContext): Promise<MessageStepResult> {
    let move: Move
    try {
      move = this.game.parse(textOf(reply), this.#state, this.seat)
    } catch (error) {
      if (!(error instanceof IllegalMoveError)) throw error
      const logs = { illegal_move: error.message }
      return { reward: this.illegalMoveReward, episodeDone: true, nextMessages: [], metrics: { illegal_move: 1 }, logs }
    }
    const moves = await this.#opponentMoves(signal)
    this.#state = this.game.apply(this.#state, moves.set(this.seat, move), this.#random)
    await this.#advance(signal)
    const score = this.#score()
    const metrics = this.#substituted > 0 ? { substituted_moves: this.#substituted } : {}
    this.#substituted = 0
    if (score !== null) {
      const told = this.game.outcome?.(this.#state, this.seat)
      return { reward: score, episodeDone: true, nextMessages: told === undefined ? [] : [user(told)], metrics }
    }
    const nextMessages = [user(this.game.observe(this.#state, this.seat))]
    return { reward: 0, episodeDone: false, nextMessages, metrics }
  }

  playerView(): PlayerView {
    return playerViewOf(this.game, this.#state, this.seat)
  }

  #score(): number | null {
    return this.game.scores(this.#state)[this.seat] ?? null
  }

  /** Lets the opponents move until this seat has to, or has its score. */
  async #advance(signal: AbortSignal): Promise<void> {
    while (this.#score() === null && !this.game.toAct(this.#state).includes(this.seat))
      this.#state = this.game.apply(this.#state, await this.#opponentMoves(signal), this.#random)
  }

  async #opponentMoves(signal: AbortSignal): Promise<Map<number, Move>> {
    const acting = this.game.toAct(this.#state).filter((seat) => seat !== this.seat)
    const moves = new Map<number, Move>()
    const answers = await Promise.all(acting.map((index) => this.#answer(index, signal)))
    answers.forEach((answer, k) => {
      if ('fault' in answer)
        throw new EnvContractError(
          `the opponent in seat ${acting[k]} failed (${answer.fault.kind}): ${answer.fault.message}`,
          {
            fault: answer.fault,
          },
        )
      moves.set(acting[k]!, answer.move)
    })
    return moves
  }

  async #answer(seat: number, signal: AbortSignal): Promise<SeatAnswer<Move>> {
    const answer = await this.#opponents.get(seat)!.act(this.#state, signal)
    const substitute = this.#substitutes.get(seat)
    if (!substitute || !('fault' in answer) || answer.fault.kind !== 'illegal_move') return answer
    this.#substituted++
    return substitute.act(this.#state, signal)
  }
}
