import { system } from '@selfplay/renderers'
import { IllegalMoveError } from '../errors.js'
import { bracketedMove, type Game } from '../match/game.js'

const THROWS = ['rock', 'paper', 'scissors'] as const
export type Throw = (typeof THROWS)[number]

/** The throws so far, one pair per round. */
export type Rounds = readonly (readonly [Throw, Throw])[]

/** Rounds that the first seat has won, less those that it has lost. */
const lead = (rounds: Rounds): number =>
  rounds.reduce((sum, [a, b]) => sum + [0, 1, -1][(THROWS.indexOf(a) - THROWS.indexOf(b) + 3) % 3]!, 0)

const thrown = (rounds: Rounds, seat: number): string => {
  const last = rounds.at(-1)
  return last ? `You threw ${last[seat]}, the other ${last[1 - seat]}. ` : ''
}

/** Both seats throw at the same time. Whoever leads after `rounds` rounds wins 1, the other loses 1; a draw is 0. */
export function rockPaperScissors(rounds = 1): Game<Rounds, Throw> {
  return {
    name: 'rock-paper-scissors',
    seats: ['left', 'right'],
    start: () => [],
    toAct: (played) => (played.length >= rounds ? [] : [0, 1]),
    opening: () => [
      system(
        `You play ${rounds} rounds of rock, paper, scissors. Say [rock], [paper] or [scissors]; both say it at once.`,
      ),
    ],
    observe(played, seat) {
      return `${thrown(played, seat)}Round ${played.length + 1} of ${rounds}.`
    },
    outcome(played, seat) {
      const ahead = seat === 0 ? lead(played) : -lead(played)
      return `${thrown(played, seat)}${ahead === 0 ? 'It is a draw.' : ahead > 0 ? 'You won.' : 'You lost.'}`
    },
    parse(text) {
      const move = bracketedMove(text)
      const found = THROWS.find((one) => one === move)
      if (!found) throw new IllegalMoveError(`[${move}] is none of ${THROWS.join(', ')}`, { reason: 'unknown_move' })
      return found
    },
    apply: (played, moves) => [...played, [moves.get(0)!, moves.get(1)!]],
    scores(played) {
      if (played.length < rounds) return [null, null]
      const first = Math.sign(lead(played)) + 0
      return [first, first === 0 ? 0 : -first]
    },
    legalMoves: () => THROWS.map((one) => `[${one}]`),
    view: (played) => played,
  }
}
