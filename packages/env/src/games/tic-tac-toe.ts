import { system } from '@selfplay/renderers'
import { IllegalMoveError, EnvInputError } from '../errors.js'
import { bracketedMove, type Game } from '../match/game.js'
import type { MessagePolicy } from '../policies/policy.js'
import { Random } from '../random.js'

/** Nine cells in rows from the top left: `X`, `O`, or `.` for empty. X begins. */
export type Board = string

const LINES = [
  [0, 1, 2],
  [3, 4, 5],
  [6, 7, 8],
  [0, 3, 6],
  [1, 4, 7],
  [2, 5, 8],
  [0, 4, 8],
  [2, 4, 6],
] as const
const CELLS = [0, 1, 2, 3, 4, 5, 6, 7, 8] as const
const MARKS = ['X', 'O'] as const

/** Who has three in a row: seat 0 (X), seat 1 (O), or nobody. */
export function winnerOf(board: Board): 0 | 1 | undefined {
  for (const [a, b, c] of LINES)
    if (board[a] !== '.' && board[a] === board[b] && board[a] === board[c]) return board[a] === 'X' ? 0 : 1
  return undefined
}

/** Indices of the empty cells, or none when the game is over. */
export const openCells = (board: Board): number[] =>
  winnerOf(board) === undefined ? CELLS.filter((cell) => board[cell] === '.') : []

export const seatToMove = (board: Board): 0 | 1 =>
  CELLS.filter((cell) => board[cell] !== '.').length % 2 === 0 ? 0 : 1

export const place = (board: Board, cell: number): Board =>
  board.slice(0, cell) + MARKS[seatToMove(board)] + board.slice(cell + 1)

const drawn = (board: Board): string =>
  [0, 3, 6]
    .map((row) => [0, 1, 2].map((k) => (board[row + k] === '.' ? row + k + 1 : board[row + k])).join(' '))
    .join('\n')

/** Tic-tac-toe. Moves are cells 1 to 9 in square brackets. A win is 1, a loss -1, a draw 0. */
export const ticTacToe: Game<Board, number> = {
  name: 'tic-tac-toe',
  seats: MARKS,
  start: () => '.........',
  toAct: (board) => (openCells(board).length === 0 ? [] : [seatToMove(board)]),
  opening: (seat) => [
    system(
      `You play tic-tac-toe as ${MARKS[seat]}. Three in a row win. Name a free cell by its number in square brackets, like [5].`,
    ),
  ],
  observe: (board) => `${drawn(board)}\nYour move.`,
  outcome(board, seat) {
    const winner = winnerOf(board)
    return `${drawn(board)}\n${winner === undefined ? 'It is a draw.' : winner === seat ? 'You won.' : 'You lost.'}`
  },
  parse(text, board) {
    const move = bracketedMove(text)
    const cell = /^[1-9]$/.test(move) ? Number(move) - 1 : -1
    if (cell < 0) throw new IllegalMoveError(`[${move}] is no cell from 1 to 9`, { reason: 'no_cell' })
    if (board[cell] !== '.') throw new IllegalMoveError(`cell ${move} is taken`, { reason: 'taken' })
    return cell
  },
  apply: (board, moves) => place(board, moves.get(seatToMove(board))!),
  scores(board) {
    const winner = winnerOf(board)
    if (winner !== undefined) return winner === 0 ? [1, -1] : [-1, 1]
    return openCells(board).length === 0 ? [0, 0] : [null, null]
  },
  legalMoves: (board) => openCells(board).map((cell) => `[${cell + 1}]`),
  view: (board) => board,
}

/** Finds all moves that keep the value of the game (minimax over the whole tree; a faster win counts no more than a slow one). */
export function ticTacToeSolver(): { value(board: Board): number; bestMoves(board: Board): number[] } {
  const known = new Map<Board, number>()
  const value = (board: Board): number => {
    const before = known.get(board)
    if (before !== undefined) return before
    const score = ticTacToe.scores(board)[0]
    const best = seatToMove(board) === 0 ? Math.max : Math.min
    const found = score ?? best(...openCells(board).map((cell) => value(place(board, cell))))
    known.set(board, found)
    return found
  }
  return { value, bestMoves: (board) => openCells(board).filter((cell) => value(place(board, cell)) === value(board)) }
}

/**
 * A player that never loses.
 *
 * @param ties which of the moves that keep the value it makes: the `first` in reading order, or any of them, `uniform`ly
 */
export function optimalTicTacToe(ties: 'first' | 'uniform' = 'uniform'): MessagePolicy {
  const solver = ticTacToeSolver()
  return ({ view, seed }) => {
    if (typeof view !== 'string') throw new EnvInputError('optimalTicTacToe plays tic-tac-toe only')
    const best = solver.bestMoves(view)
    if (ties === 'uniform' && seed === undefined)
      throw new EnvInputError('optimalTicTacToe: expected the episode to be given a seed')
    return `[${(ties === 'first' ? best[0]! : new Random(seed!).pick(best)) + 1}]`
  }
}
