import { describe, expect, it } from 'vitest'
import { playMatches } from '../match/matches.js'
import { playMatch } from '../match/play-match.js'
import { randomMoves, scripted } from '../policies/scripted.js'
import { kuhnBestResponse, kuhnNashConv, kuhnPoker, kuhnValue, type KuhnStrategy, type KuhnView } from './kuhn-poker.js'
import { rockPaperScissors } from './rock-paper-scissors.js'
import {
  openCells,
  optimalTicTacToe,
  place,
  seatToMove,
  ticTacToe,
  ticTacToeSolver,
  type Board,
} from './tic-tac-toe.js'

const EMPTY: Board = '.........'

/** Complete games from a board: won by X, drawn, won by O. */
function countGames(board: Board, known = new Map<Board, number[]>()): number[] {
  const found = known.get(board)
  if (found) return found
  const [score] = ticTacToe.scores(board)
  const ended = [1, 0, -1].map((value) => (score === value ? 1 : 0))
  const counts =
    score === null
      ? openCells(board)
          .map((cell) => countGames(place(board, cell), known))
          .reduce((sum, one) => sum.map((count, k) => count + one[k]!))
      : ended
  known.set(board, counts)
  return counts
}

function reachable(board: Board, seen = new Set<Board>()): Set<Board> {
  if (seen.has(board)) return seen
  seen.add(board)
  for (const cell of openCells(board)) reachable(place(board, cell), seen)
  return seen
}

type Chooser = (board: Board) => readonly number[]

/** Chances of X, draw and O when each seat picks uniformly among the cells that its chooser gives. */
function chances(choosers: readonly [Chooser, Chooser], board = EMPTY, known = new Map<Board, number[]>()): number[] {
  const found = known.get(board)
  if (found) return found
  const [score] = ticTacToe.scores(board)
  const cells = score === null ? choosers[seatToMove(board)](board) : []
  const result =
    score === null
      ? cells
          .map((cell) => chances(choosers, place(board, cell), known))
          .reduce((sum, one) => sum.map((chance, k) => chance + one[k]! / cells.length), [0, 0, 0])
      : [1, 0, -1].map((value) => (score === value ? 1 : 0))
  known.set(board, result)
  return result
}

const close = (actual: readonly number[], expected: readonly number[], digits = 12) =>
  actual.forEach((value, k) => expect(value).toBeCloseTo(expected[k]!, digits))

describe('tic-tac-toe', () => {
  const solver = ticTacToeSolver()
  const uniform: Chooser = openCells
  const optimal: Chooser = (board) => solver.bestMoves(board)
  const firstBest: Chooser = (board) => solver.bestMoves(board).slice(0, 1)

  it('has 255,168 complete games', () => {
    expect(countGames(EMPTY)).toEqual([131_184, 46_080, 77_904])
  })

  it('has 5,478 reachable positions, 4,520 of them with a move, and value 0', () => {
    const boards = [...reachable(EMPTY)]
    expect(boards).toHaveLength(5478)
    expect(boards.filter((board) => ticTacToe.toAct(board).length > 0)).toHaveLength(4520)
    expect(solver.value(EMPTY)).toBe(0)
  })

  it('gives the known chances between random and optimal players', () => {
    close(chances([uniform, uniform]), [737 / 1260, 8 / 63, 121 / 420])
    close(chances([optimal, uniform]), [0.9678, 0.0322, 0], 4)
    close(chances([uniform, optimal]), [0, 0.2225, 0.7775], 4)
    close(chances([optimal, optimal]), [0, 1, 0])
    close(chances([firstBest, uniform]), [191 / 192, 1 / 192, 0])
    expect(chances([uniform, firstBest])[2]).toBeCloseTo(254 / 315, 12)
  })

  it('played by the referee, comes near the same chances', async () => {
    const play = async (policies: Parameters<typeof playMatches>[1]) => {
      const matches = await playMatches(ticTacToe, policies, { seed: 9, matches: 1000 })
      expect(matches.every((match) => match.status === 'finished')).toBe(true)
      return [1, 0, -1].map((value) => matches.filter((m) => m.seats[0]!.reward === value).length / matches.length)
    }
    const random = await play([randomMoves(), randomMoves()])
    ;[0.5849, 0.127, 0.2881].forEach((chance, k) => expect(Math.abs(random[k]! - chance)).toBeLessThan(0.0625)) // 4 sigma
    const [won, drawn] = await play([randomMoves(), optimalTicTacToe('uniform')])
    expect(won).toBe(0)
    expect(Math.abs(drawn! - 0.2225)).toBeLessThan(0.0527)
    expect(await play([optimalTicTacToe('first'), optimalTicTacToe()])).toEqual([0, 1, 0])
  })

  it.each([
    ['[5]', 'taken'],
    ['[0]', 'no_cell'],
    ['[10]', 'no_cell'],
    ['[centre]', 'no_cell'],
  ])('refuses %s as %s', (text, reason) => {
    expect(() => ticTacToe.parse(text, '....X....', 1)).toThrow(
      expect.objectContaining({ details: { reason } }) as Error,
    )
  })
})

describe('Kuhn poker', () => {
  const table =
    (bets: Readonly<Record<string, number>>): KuhnStrategy =>
    ({ card, history }: KuhnView) =>
      bets[`${'JQK'[card]}${history}`] ?? 0
  /** The equilibria of the first seat, one for each alpha from 0 to 1/3 (Kuhn, 1950). */
  const first = (alpha: number) => table({ J: alpha, K: 3 * alpha, Qpb: alpha + 1 / 3, Kpb: 1 })
  const second = table({ Jp: 1 / 3, Kp: 1, Qb: 1 / 3, Kb: 1 })

  it.each([0, 0.1, 0.2, 1 / 3])('is worth -1/18 to the first seat at equilibrium, alpha %d', (alpha) => {
    expect(kuhnValue([first(alpha), second])).toBeCloseTo(-1 / 18, 12)
    expect(kuhnNashConv([first(alpha), second])).toBeCloseTo(0, 12)
  })

  it('measures how far other players are from it', () => {
    const even: KuhnStrategy = () => 0.5
    expect(kuhnValue([even, even])).toBeCloseTo(1 / 8, 12)
    expect(kuhnBestResponse(0, even)).toBeCloseTo(1 / 2, 12)
    expect(kuhnBestResponse(1, even)).toBeCloseTo(5 / 12, 12)
    expect(kuhnNashConv([even, even])).toBeCloseTo(11 / 12, 12)
    expect(kuhnNashConv([() => 0, () => 0])).toBeCloseTo(2, 12)
    expect(kuhnNashConv([() => 1, () => 1])).toBeCloseTo(2 / 3, 12)
  })

  it('sees what rewards cannot: honest players draw on average and can be exploited', () => {
    const honest = table({ K: 1, Kp: 1, Kb: 1, Kpb: 1, Qb: 1, Qpb: 1 }) // bets with the king alone, never calls with the jack
    expect(kuhnValue([honest, honest])).toBeCloseTo(0, 12)
    expect(kuhnNashConv([honest, honest])).toBeCloseTo(1 / 3, 12)
  })

  it('played by the referee, is zero-sum and near its value', async () => {
    const matches = await playMatches(kuhnPoker, [randomMoves(), randomMoves()], { seed: 2, matches: 2000 })
    const rewards = matches.map((match) => match.seats.map((seat) => seat.reward!))
    expect(rewards.every(([a, b]) => a! + b! === 0)).toBe(true)
    const mean = rewards.reduce((sum, [a]) => sum + a!, 0) / rewards.length
    expect(Math.abs(mean - 1 / 8)).toBeLessThan(0.13) // 4 sigma
  })

  it('refuses other moves', () => {
    expect(() => kuhnPoker.parse('[fold]', { cards: [0, 1], history: '' }, 0)).toThrow(/neither \[pass\] nor \[bet\]/)
  })
})

describe('rock, paper, scissors', () => {
  it.each([
    [['[rock]', '[rock]'], ['[scissors]', '[rock]'], 1],
    [['[rock]', '[paper]'], ['[paper]', '[rock]'], 0],
    [['[scissors]', '[rock]'], ['[rock]', '[rock]'], -1],
  ])('%j against %j is %i', async (left, right, score) => {
    const result = await playMatch(rockPaperScissors(2), [scripted(left), scripted(right)], { seed: 0 })
    expect(result.seats.map((seat) => seat.reward)).toEqual(score === 0 ? [0, 0] : [score, -score])
  })
})
