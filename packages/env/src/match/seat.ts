import { textOf, user, type Message } from '@selfplay/renderers'
import { bounded, type Deadline } from '../deadline.js'
import { IllegalMoveError, TimeoutError } from '../errors.js'
import { endOf, isSampled, messageOf, type MessagePolicy, type PolicyReply } from '../policies/policy.js'
import { deriveSeed } from '../random.js'
import { codeOf } from '../rollout/failure.js'
import type { Transition } from '../types.js'
import { playerViewOf, type Game } from './game.js'
import type { Fault, MatchVerdict } from './verdict.js'

export interface SeatOptions {
  readonly seat: number
  readonly policy: MessagePolicy
  readonly seed: number
  readonly turnTimeoutSeconds: number | null
  /** Illegal moves in a row that may be tried again. */
  readonly illegalMoveRetries: number
}

/** What a seat answered: a move, and the text that it was read from; or a fault. */
export type SeatAnswer<Move> = { readonly move: Move; readonly text: string } | { readonly fault: Fault }

/** One player at the table: its policy, its own conversation, what it sampled, and what it got. */
export class Seat<State, Move> {
  readonly seat: number
  readonly transcript: Message[] = []
  readonly transitions: Transition[] = []
  verdict: MatchVerdict | undefined
  reward: number | null = null
  readonly #game: Game<State, Move>
  readonly #options: SeatOptions
  readonly #episode = {}
  #turn = 0
  #seen = 0

  constructor(game: Game<State, Move>, options: SeatOptions) {
    this.seat = options.seat
    this.#game = game
    this.#options = options
  }

  /**
   * Tells the seat where the game stands and asks its policy for a move.
   *
   * @throws what the game itself throws, and `signal`'s reason when aborted; never for what the policy does
   */
  async act(state: State, signal: AbortSignal): Promise<SeatAnswer<Move>> {
    if (this.transcript.length === 0) this.transcript.push(...this.#game.opening(this.seat, state))
    this.transcript.push(user(this.#game.observe(state, this.seat)))
    for (let tries = 0; ; tries++) {
      let reply: PolicyReply
      try {
        reply = await this.#ask(state, signal)
        this.#take(reply)
      } catch (error) {
        signal.throwIfAborted()
        return { fault: this.#fault(error instanceof TimeoutError ? 'timeout' : 'crash', error) }
      }
      const read = this.#read(reply, state)
      if (!('error' in read)) return read
      if (tries >= this.#options.illegalMoveRetries) return { fault: this.#fault('illegal_move', read.error) }
      this.transcript.push(user(`That is no legal move: ${read.error.message}. Please move again.`))
    }
  }

  #ask(state: State, signal: AbortSignal): PolicyReply | Promise<PolicyReply> {
    const { policy, seed, turnTimeoutSeconds: seconds } = this.#options
    const turn = this.#turn++
    const asked = {
      messages: this.transcript,
      newMessages: this.transcript.slice(this.#seen),
      turn,
      tools: [],
      episode: this.#episode,
      seed: deriveSeed(seed, turn),
      ...playerViewOf(this.#game, state, this.seat),
    }
    const expired = () => new TimeoutError(`seat ${this.seat}`, seconds!, 'turn_timeout')
    const deadlines: Deadline[] = seconds === null ? [] : [{ ms: seconds * 1000, expired }]
    return bounded((inner) => policy({ ...asked, signal: inner }), { signal, deadlines })
  }

  #take(reply: PolicyReply): void {
    const message = messageOf(reply)
    this.transcript.push(message)
    this.#seen = this.transcript.length
    if (typeof reply === 'string' || !isSampled(reply)) return
    const { observation, action } = reply
    this.transitions.push({ observation, action, reward: 0, episodeDone: false, metrics: {}, logs: {}, message })
  }

  #read(reply: PolicyReply, state: State): { move: Move; text: string } | { error: IllegalMoveError } {
    try {
      const { clean, cutOff } = endOf(reply)
      if (!clean)
        throw new IllegalMoveError(cutOff ? 'the reply was cut off by its length' : 'the reply has no clean end', {
          reason: cutOff ? 'cut_off' : 'malformed',
        })
      const text = textOf(messageOf(reply))
      return { move: this.#game.parse(text, state, this.seat), text }
    } catch (error) {
      if (error instanceof IllegalMoveError) return { error }
      throw error // the game's own bug
    }
  }

  #fault(kind: Fault['kind'], error: unknown): Fault {
    const reason = error instanceof IllegalMoveError ? error.details['reason'] : undefined
    const message = error instanceof Error ? error.message : String(error)
    return { kind, seat: this.seat, code: typeof reason === 'string' ? reason : codeOf(error), message }
  }
}
