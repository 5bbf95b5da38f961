import {
  GameEnv,
  kuhnPoker,
  optimalTicTacToe,
  Random,
  randomMoves,
  rockPaperScissors,
  ticTacToe,
  type Game,
  type MessageEnv,
  type MessagePolicy,
} from '@selfplay/env'
import { UsageError } from '../command/failure.js'
import { namingGame } from './naming-game.js'

/** What decides an episode besides what is typed. */
export interface Setting {
  readonly seed: number
  /** From 0. */
  readonly seat: number | undefined
}

/** A game for one person; the other seats are played by `opponent`. */
const against =
  <State, Move>(game: Game<State, Move>, opponent: MessagePolicy) =>
  ({ seed, seat = 0 }: Setting): MessageEnv => {
    if (seat >= game.seats.length)
      throw new UsageError(`--seat: ${game.name} has seats 1 to ${game.seats.length}, got ${seat + 1}`)
    const opponents = Object.fromEntries(game.seats.map((_, index) => [index, opponent]))
    return new GameEnv(game, { seat, opponents, seed })
  }

const builtIns: ReadonlyMap<string, (setting: Setting) => MessageEnv> = new Map([
  ['kuhn-poker', against(kuhnPoker, randomMoves())],
  [
    'naming-game',
    ({ seed, seat }) => {
      if (seat !== undefined) throw new UsageError('--seat: the naming game has no seats; leave it out')
      return namingGame(new Random(seed))
    },
  ],
  ['rock-paper-scissors', against(rockPaperScissors(3), randomMoves())],
  ['tic-tac-toe', against(ticTacToe, optimalTicTacToe())],
])

/** What `selfplay play` knows by name. */
export const builtInNames: readonly string[] = [...builtIns.keys()]

/** A built-in environment; undefined when there is none of that name. */
export const builtIn = (name: string, setting: Setting): MessageEnv | undefined => builtIns.get(name)?.(setting)
