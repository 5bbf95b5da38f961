import { z } from 'zod'
import type { Message } from '@selfplay/renderers'
import { neverAborted } from '../on-abort.js'
import { EnvContractError, EnvInputError } from '../errors.js'
import { parseOptions } from '../options.js'
import type { MessagePolicy } from '../policies/policy.js'
import { Random, deriveSeed } from '../random.js'
import { codeOf } from '../rollout/failure.js'
import type { Transition } from '../types.js'
import type { Game } from './game.js'
import { Seat, type SeatAnswer } from './seat.js'
import type { Fault, MatchVerdict } from './verdict.js'

const optionsSchema = z.strictObject({
  seed: z.int(),
  maxTurns: z.int().positive().default(1000),
  turnTimeoutSeconds: z.number().positive().nullable().default(300),
  illegalMoveRetries: z.int().min(0).default(0),
  illegalMoveReward: z.number().nullable().default(-1),
})

export interface MatchOptions {
  /** Seeds the game and every policy. The same seed and policies give the same match. */
  readonly seed: number
  /** Most rounds of moves. Default 1000. */
  readonly maxTurns?: number
  /** Most seconds for one move; null is no limit, for people. Default 300. */
  readonly turnTimeoutSeconds?: number | null
  /** How often in a row a seat may try again after an illegal move. Default 0. */
  readonly illegalMoveRetries?: number
  /** Reward of a seat whose illegal move ended its game; null for none. Default -1. */
  readonly illegalMoveReward?: number | null
  /**
   * Scores when a seat fails in a game that cannot go on without it; null leaves a seat out. Default: the others get no score (a
   * fault of one is no success of another), and the seat itself only `illegalMoveReward`.
   */
  readonly onFault?: (fault: Fault) => readonly (number | null)[]
  readonly signal?: AbortSignal
}

/** What a match was for one seat. */
export interface SeatResult {
  readonly seat: number
  readonly name: string
  readonly verdict: MatchVerdict
  /** null: no result. Such a seat is neither trained on nor counted as 0. */
  readonly reward: number | null
  /** The seat's own conversation: what it was told and what it said. */
  readonly transcript: readonly Message[]
  /** What the seat sampled, for policies that sample. The last one carries the reward. */
  readonly transitions: readonly Transition[]
}

export interface MatchResult {
  readonly game: string
  readonly seed: number
  /** `finished` by its rules, `ended` by a fault or a limit, `failed` because the game's own code threw. */
  readonly status: 'finished' | 'ended' | 'failed'
  readonly reason?: string
  /** In seat order. */
  readonly seats: readonly SeatResult[]
  /** Rounds of moves that were made. */
  readonly turns: number
  /** The moves in order, as they were written. */
  readonly moves: readonly { readonly turn: number; readonly seat: number; readonly text: string }[]
  readonly faults: readonly Fault[]
}

/**
 * Plays a match. The referee owns the state and asks only seats that have to move, so no seat waits for another: when one fails,
 * it gets its verdict, and the others play on or have theirs.
 *
 * @param policies one per seat
 * @returns the result, whatever the seats did
 * @throws EnvInputError for options that cannot be used; the signal's reason when aborted
 */
export async function playMatch<State, Move>(
  game: Game<State, Move>,
  policies: readonly MessagePolicy[],
  options: MatchOptions,
): Promise<MatchResult> {
  checkMatch('playMatch', options)
  const { signal = neverAborted, onFault, ...rest } = options
  const rules = parseOptions(optionsSchema, rest, 'playMatch')
  if (!Array.isArray(policies) || policies.length !== game.seats.length)
    throw new EnvInputError(
      `${game.name} has ${game.seats.length} seats and needs a policy for each, got ${Array.isArray(policies) ? policies.length : typeof policies}`,
    )
  signal.throwIfAborted()
  const seats = policies.map((policy, seat) => {
    const { turnTimeoutSeconds, illegalMoveRetries } = rules
    return new Seat(game, {
      seat,
      policy,
      seed: deriveSeed(rules.seed, 'seat', seat),
      turnTimeoutSeconds,
      illegalMoveRetries,
    })
  })
  return new Referee(game, seats, { ...rules, onFault }, signal).run()
}

/** @throws EnvInputError where there are no options: a match has no default seed */
export function checkMatch(what: string, options: unknown): void {
  if (typeof options === 'object' && options !== null) return
  throw new EnvInputError(`${what}: expected options with a seed, such as { seed: 1 }, got ${String(options)}`)
}

interface Rules extends z.output<typeof optionsSchema> {
  readonly onFault: MatchOptions['onFault']
}

class Referee<State, Move> {
  readonly #game: Game<State, Move>
  readonly #seats: readonly Seat<State, Move>[]
  readonly #rules: Rules
  readonly #signal: AbortSignal
  readonly #random: Random
  readonly #moves: { turn: number; seat: number; text: string }[] = []
  readonly #faults: Fault[] = []
  #turn = 0

  constructor(game: Game<State, Move>, seats: readonly Seat<State, Move>[], rules: Rules, signal: AbortSignal) {
    this.#game = game
    this.#seats = seats
    this.#rules = rules
    this.#signal = signal
    this.#random = new Random(deriveSeed(rules.seed, 'game'))
  }

  async run(): Promise<MatchResult> {
    try {
      return await this.#play(this.#game.start(this.#random))
    } catch (error) {
      this.#signal.throwIfAborted()
      // Policies cannot throw in here, so it is the game that did.
      const message = error instanceof Error ? error.message : String(error)
      return this.#result('failed', `${this.#game.name}: ${codeOf(error)}: ${message}`)
    }
  }

  async #play(start: State): Promise<MatchResult> {
    let state = start
    for (;;) {
      this.#settle(state)
      const acting = this.#acting(state)
      if (acting.length === 0) return this.#finished()
      if (this.#turn >= this.#rules.maxTurns) return this.#result('ended', `max_turns: ${this.#rules.maxTurns}`)
      const answers = await this.#ask(state, acting)
      const faults = answers.flatMap((answer) => ('fault' in answer ? [answer.fault] : []))
      for (const fault of faults) this.#judge(fault)
      const withdrawn = this.#withdrawn(state, faults)
      if (withdrawn === undefined) return this.#endedBy(faults[0]!)
      state = this.#moved(withdrawn, acting, answers)
      this.#turn++
    }
  }

  #acting(state: State): readonly number[] {
    const acting = this.#game.toAct(state)
    const wrong = acting.find((seat) => !this.#seats[seat] || this.#seats[seat].verdict)
    if (wrong !== undefined)
      throw new EnvContractError(`toAct names seat ${wrong}, which ${this.#seats[wrong] ? 'is out' : 'does not exist'}`)
    return acting
  }

  /** All seats that move now, at once. Returns when each has settled, in seat order. */
  async #ask(state: State, acting: readonly number[]): Promise<SeatAnswer<Move>[]> {
    const settled = await Promise.allSettled(acting.map((index) => this.#seats[index]!.act(state, this.#signal)))
    const thrown = settled.find((one) => one.status === 'rejected')
    if (thrown) throw thrown.reason
    return settled.map((one) => (one as PromiseFulfilledResult<SeatAnswer<Move>>).value)
  }

  /** The state after the moves of those who moved, if they are the ones to move in this state. */
  #moved(state: State, acting: readonly number[], answers: readonly SeatAnswer<Move>[]): State {
    const moves = new Map<number, Move>()
    acting.forEach((seat, k) => {
      const answer = answers[k]!
      if ('fault' in answer) return
      moves.set(seat, answer.move)
    })
    const toAct = this.#game.toAct(state)
    // With a seat gone others may have to move; they are asked in the next round.
    if (moves.size === 0 || toAct.length !== moves.size || !toAct.every((seat) => moves.has(seat))) return state
    acting.forEach((seat, k) => {
      const answer = answers[k]!
      if ('text' in answer) this.#moves.push({ turn: this.#turn, seat, text: answer.text })
    })
    return this.#game.apply(state, moves, this.#random)
  }

  /** Pays every seat whose score is decided, once. */
  #settle(state: State): void {
    const scores = this.#game.scores(state)
    if (scores.length !== this.#seats.length)
      throw new EnvContractError(`scores: expected one per seat (${this.#seats.length}), got ${scores.length}`)
    this.#seats.forEach((seat, k) => {
      const score = scores[k]!
      if (seat.verdict || score === null) return
      if (!Number.isFinite(score)) throw new EnvContractError(`scores: expected a number for seat ${k}, got ${score}`)
      seat.verdict = { kind: 'scored' }
      seat.reward = score
    })
  }

  #judge(fault: Fault): void {
    this.#faults.push(fault)
    const seat = this.#seats[fault.seat]!
    seat.verdict = { kind: fault.kind, code: fault.code, message: fault.message }
    seat.reward = fault.kind === 'illegal_move' ? this.#rules.illegalMoveReward : null
  }

  /** The state without the seats that failed; undefined where the game cannot go on. */
  #withdrawn(state: State, faults: readonly Fault[]): State | undefined {
    const game = this.#game
    if (faults.length > 0 && !game.withdraw) return undefined
    return faults.reduce((left, fault) => game.withdraw!(left, fault.seat), state)
  }

  #endedBy(fault: Fault): MatchResult {
    const scores = this.#rules.onFault?.(fault)
    if (scores && scores.length !== this.#seats.length)
      throw new EnvContractError(`onFault: expected one score per seat (${this.#seats.length}), got ${scores.length}`)
    scores?.forEach((score, k) => {
      const seat = this.#seats[k]!
      if (score !== null && !seat.verdict) seat.verdict = { kind: 'scored' }
      if (score !== null || k === fault.seat) seat.reward = score
    })
    return this.#result('ended', `seat ${fault.seat}: ${fault.kind}`)
  }

  #finished(): MatchResult {
    const open = this.#seats.findIndex((seat) => !seat.verdict)
    if (open >= 0) throw new EnvContractError(`nobody is to act and seat ${open} has no score`)
    return this.#result('finished')
  }

  #result(status: MatchResult['status'], reason?: string): MatchResult {
    return {
      game: this.#game.name,
      seed: this.#rules.seed,
      status,
      ...(reason === undefined ? {} : { reason }),
      seats: this.#seats.map((seat, k) => ({
        seat: k,
        name: this.#game.seats[k]!,
        verdict: seat.verdict ?? { kind: 'no_contest', because: reason ?? status },
        reward: seat.reward,
        transcript: seat.transcript,
        transitions: paid(seat.transitions, seat.reward, seat.verdict),
      })),
      turns: this.#turn,
      moves: this.#moves,
      faults: this.#faults,
    }
  }
}

/** The transitions with the reward at the last one. */
function paid(
  transitions: readonly Transition[],
  reward: number | null,
  verdict: MatchVerdict | undefined,
): Transition[] {
  const metrics = verdict?.kind === 'illegal_move' ? { illegal_move: 1 } : {}
  return transitions.map((transition, k) =>
    k < transitions.length - 1 ? transition : { ...transition, reward: reward ?? 0, episodeDone: true, metrics },
  )
}
