import { IllegalMoveError } from '../errors.js'
import type { PlayerView } from '../message-env.js'
import type { Message } from '@selfplay/renderers'
import type { Random } from '../random.js'

/**
 * The rules of a game for any number of seats. Seats are numbered from 0.
 *
 * A state is plain data and never changed: `apply` returns another one. Everything random comes from the generator that is
 * handed in. Turn-based and simultaneous games differ only in how many seats `toAct` names.
 */
export interface Game<State = unknown, Move = unknown> {
  readonly name: string
  /** What the seats are called. Their number is the number of seats. */
  readonly seats: readonly string[]
  start(random: Random): State
  /** The seats that move now, at the same time and without seeing each other's moves. None: the game is over. */
  toAct(state: State): readonly number[]
  /** What a seat is told before its first move: the rules, and who it is. */
  opening(seat: number, state: State): readonly Message[]
  /** What a seat is told when it has to move. It must hold nothing that the seat may not see. */
  observe(state: State, seat: number): string
  /** What a seat is told once the game is over for it. Games that lack it say nothing then. */
  outcome?(state: State, seat: number): string
  /** Reads a move. @throws IllegalMoveError when the text is none, or one that is not allowed */
  parse(text: string, state: State, seat: number): Move
  /** Makes the moves of all seats that `toAct` named. */
  apply(state: State, moves: ReadonlyMap<number, Move>, random: Random): State
  /** What each seat has got, or null while that is open. A seat that is out before the end has its score from then on. */
  scores(state: State): readonly (number | null)[]
  /** The moves that a seat may make, as text that `parse` reads. For scripted players, and people. */
  legalMoves?(state: State, seat: number): readonly string[]
  /** What a seat sees, as data. For scripted players. */
  view?(state: State, seat: number): unknown
  /** The state in which the others play on without this seat. Games that lack it end when a seat fails. */
  withdraw?(state: State, seat: number): State
}

/**
 * The one move in square brackets: `"I considered 4 but play [2]; 9 cells left"` gives `"2"`. Numbers outside brackets are
 * thoughts.
 *
 * @throws IllegalMoveError with reason `no_move` or `several_moves`
 */
export function bracketedMove(text: string): string {
  const found = [...text.matchAll(/\[([^[\]]*)\]/g)].map((match) => match[1]!.trim())
  const [move] = found
  if (move === undefined || move === '')
    throw new IllegalMoveError('expected one move in square brackets, like [2], and found none', { reason: 'no_move' })
  if (found.length > 1)
    throw new IllegalMoveError(
      `expected one move in square brackets, found ${found.length}: ${found.map((one) => `[${one}]`).join(' ')}`,
      { reason: 'several_moves' },
    )
  return move
}

/** What a seat knows beside its messages. */
export function playerViewOf<State, Move>(game: Game<State, Move>, state: State, seat: number): PlayerView {
  const legalMoves = game.legalMoves?.(state, seat)
  const view = game.view?.(state, seat)
  return { seat, ...(legalMoves ? { legalMoves } : {}), ...(view === undefined ? {} : { view }) }
}
