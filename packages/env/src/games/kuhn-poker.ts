import { system } from '@selfplay/renderers'
import { IllegalMoveError } from '../errors.js'
import { bracketedMove, type Game } from '../match/game.js'

export type KuhnMove = 'pass' | 'bet'

/** Cards 0 (jack), 1 (queen), 2 (king), one per seat, and the moves so far: `p` for pass, `b` for bet. */
export interface KuhnState {
  readonly cards: readonly [number, number]
  readonly history: string
}

/** What a seat sees: its own card and the moves, but not the other card. */
export interface KuhnView {
  readonly card: number
  readonly history: string
}

const CARDS = ['jack', 'queen', 'king'] as const
const ENDS: ReadonlySet<string> = new Set(['pp', 'bp', 'bb', 'pbp', 'pbb'])

/** The six deals, each as likely as the others. */
export const kuhnDeals: readonly (readonly [number, number])[] = [0, 1, 2].flatMap((a) =>
  [0, 1, 2].filter((b) => b !== a).map((b) => [a, b] as const),
)

/** What seat 0 has won at the end of a hand: the ante of 1, or 2 after a bet that was called. */
export function kuhnPayoff({ cards, history }: KuhnState): number {
  if (history === 'bp') return 1
  if (history === 'pbp') return -1
  return (cards[0] > cards[1] ? 1 : -1) * (history === 'pp' ? 1 : 2)
}

/** Whether the hand ends with both cards on the table: nobody has given up. */
const isShowdown = (history: string): boolean => history === 'pp' || history.endsWith('bb')

const told = (history: string): string =>
  history === ''
    ? 'You move first.'
    : `Moves so far: ${history
        .split('')
        .map((move) => (move === 'p' ? 'pass' : 'bet'))
        .join(', ')}.`

/** Kuhn poker (H. W. Kuhn, 1950): three cards, one each, an ante of 1, one bet of 1. Cards are hidden from the other seat. */
export const kuhnPoker: Game<KuhnState, KuhnMove> = {
  name: 'kuhn-poker',
  seats: ['first', 'second'],
  start: (random) => ({ cards: random.pick(kuhnDeals) as [number, number], history: '' }),
  toAct: ({ history }) => (ENDS.has(history) ? [] : [history.length % 2]),
  opening: () => [
    system(
      'You play Kuhn poker. There are a jack, a queen and a king; each of two players has one card and has put in 1 chip. Say [pass] or [bet]. Passing after a bet gives up; betting after a bet calls it. The higher card wins.',
    ),
  ],
  observe: ({ cards, history }, seat) => `Your card is the ${CARDS[cards[seat]!]}. ${told(history)} [pass] or [bet]?`,
  outcome(state, seat) {
    const { cards, history } = state
    const shown = isShowdown(history)
      ? ` Your card is the ${CARDS[cards[seat]!]}, the other the ${CARDS[cards[1 - seat]!]}.`
      : ''
    const won = kuhnPayoff(state) * (seat === 0 ? 1 : -1)
    return `${told(history)}${shown} You ${won > 0 ? 'won' : 'lost'} ${Math.abs(won) === 1 ? '1 chip' : '2 chips'}.`
  },
  parse(text) {
    const move = bracketedMove(text)
    if (move !== 'pass' && move !== 'bet')
      throw new IllegalMoveError(`[${move}] is neither [pass] nor [bet]`, { reason: 'unknown_move' })
    return move
  },
  apply: ({ cards, history }, moves) => ({
    cards,
    history: history + (moves.get(history.length % 2) === 'bet' ? 'b' : 'p'),
  }),
  scores(state) {
    if (!ENDS.has(state.history)) return [null, null]
    const first = kuhnPayoff(state)
    return [first, -first]
  },
  legalMoves: () => ['[pass]', '[bet]'],
  view: ({ cards, history }, seat): KuhnView => ({ card: cards[seat]!, history }),
}

/** Probability of a bet, by what a seat sees. */
export type KuhnStrategy = (view: KuhnView) => number

/** What seat 0 wins on average when the seats play these strategies. */
export const kuhnValue = (strategies: readonly [KuhnStrategy, KuhnStrategy]): number =>
  kuhnDeals.reduce((sum, cards) => sum + valueFrom({ cards, history: '' }, strategies) / kuhnDeals.length, 0)

function valueFrom(state: KuhnState, strategies: readonly [KuhnStrategy, KuhnStrategy]): number {
  const { cards, history } = state
  if (ENDS.has(history)) return kuhnPayoff(state)
  const seat = history.length % 2
  const bet = strategies[seat]!({ card: cards[seat]!, history })
  const after = (move: string) => valueFrom({ cards, history: history + move }, strategies)
  return bet * after('b') + (1 - bet) * after('p')
}

/**
 * What a seat wins on average with the best answer to the other's strategy.
 *
 * Every seat decides at two places per card, so all 64 pure strategies are tried.
 */
export function kuhnBestResponse(seat: 0 | 1, other: KuhnStrategy): number {
  const places = seat === 0 ? ['', 'pb'] : ['p', 'b']
  const bits = [0, 1, 2].flatMap((card) => places.map((history) => `${card}${history}`))
  const values = Array.from({ length: 2 ** bits.length }, (_, choice) => {
    const pure: KuhnStrategy = ({ card, history }) => (choice >> bits.indexOf(`${card}${history}`)) & 1
    return seat === 0 ? kuhnValue([pure, other]) : -kuhnValue([other, pure])
  })
  return Math.max(...values)
}

/**
 * How far two strategies are from a Nash equilibrium: what both seats together could gain by answering best. 0 at an equilibrium.
 * Sees what a reward curve of self-play cannot.
 */
export const kuhnNashConv = ([first, second]: readonly [KuhnStrategy, KuhnStrategy]): number =>
  kuhnBestResponse(0, second) + kuhnBestResponse(1, first)
