import { randomInt } from 'node:crypto'
import { human, playEnv, type Episode, type Message, type MessagePolicy, type Terminal } from '@selfplay/env'
import { interruptSignal, type SignalSource } from '../command/interrupt.js'
import { labelled, type Screen } from '../terminal/screen.js'
import { stripControls } from '../terminal/strip.js'
import type { PlayOptions } from './command.js'
import { loadEnv } from './load.js'

/** Where a person plays. */
export interface PlayPlace {
  readonly screen: Screen
  readonly input: Terminal['input']
  /** Files are found from here. */
  readonly cwd: string
  readonly signals: SignalSource
}

/**
 * Lets a person play one episode of an environment in the place of a policy.
 *
 * @throws what {@link loadEnv} and `playEnv` throw; InputClosedError when the input ends early; Interrupted.
 */
export async function runPlay(what: string, options: PlayOptions, place: PlayPlace): Promise<Episode> {
  const { screen, input, cwd, signals } = place
  const seed = options.seed ?? randomInt(2 ** 31)
  const env = await loadEnv(what, { seed, seat: options.seat === undefined ? undefined : options.seat - 1 }, cwd)
  screen.write(labelled(screen, 'playing', `${what}, seed ${seed}. A line is a reply; a backslash at its end goes on.`))
  const { signal, release } = interruptSignal({
    source: signals,
    onFirst: () => screen.write('\n'),
    onSecond: (code) => process.exit(code),
  })
  try {
    const episode = await playEnv(env, person({ input, output: screen }, screen), { seed, signal })
    showEnd(episode, screen)
    return episode
  } finally {
    release()
  }
}

/**
 * `human`, with whole control sequences taken out of what is shown; where moves are listed, a move may be typed without its
 * brackets, and a line without any of them is asked for again instead of being lost.
 */
function person(terminal: Terminal, screen: Screen): MessagePolicy {
  const atTerminal = human(terminal)
  return async (turn) => {
    const { legalMoves = [] } = turn
    let newMessages = turn.newMessages.map(shown)
    for (;;) {
      const asked = { ...turn, newMessages, ...(turn.legalMoves && { legalMoves: legalMoves.map(stripControls) }) }
      const typed = await atTerminal(asked)
      if (typeof typed !== 'string') return typed
      const move = moveIn(typed, legalMoves)
      if (move !== undefined) return move
      screen.write('That is none of the moves.\n')
      newMessages = []
    }
  }
}

/** What was meant by a line; undefined when it names none of the moves there are. */
function moveIn(typed: string, legalMoves: readonly string[]): string | undefined {
  if (legalMoves.length === 0 || legalMoves.some((move) => typed.includes(move))) return typed
  return legalMoves.find((move) => move === `[${typed.trim()}]`)
}

function shown(message: Message): Message {
  const { content } = message
  if (typeof content === 'string') return { ...message, content: stripControls(content) }
  const parts = content.map((part) => {
    if (part.type === 'text') return { ...part, text: stripControls(part.text) }
    return part.type === 'thinking' ? { ...part, thinking: stripControls(part.thinking) } : part
  })
  return { ...message, content: parts }
}

function showEnd({ reward, stopReason, turns }: Episode, screen: Screen): void {
  const last = turns.at(-1)
  for (const message of last?.nextMessages ?? []) {
    const { content } = shown(message)
    if (typeof content === 'string') screen.write(`\n${message.role}> ${content}\n`)
  }
  const facts = Object.entries({ ...last?.metrics, ...last?.logs }).map(
    ([name, value]) => `${name} ${typeof value === 'number' ? Number(value.toFixed(3)) : value}`,
  )
  screen.write(`\n${labelled(screen, 'end', `${stopReason}, reward ${Number(reward.toFixed(3))}`)}`)
  if (facts.length > 0) screen.write(labelled(screen, '', stripControls(facts.join(', '))))
}
