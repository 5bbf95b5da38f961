import type { Message } from '@selfplay/renderers'
import { ScriptExhaustedError } from '../errors.js'
import { Random } from '../random.js'
import { EnvInputError } from '../errors.js'
import type { MessagePolicy } from './policy.js'

/**
 * Says the replies of a list, one a turn, in every episode from the beginning. A function of the turn is a policy already, and stays as it is.
 *
 * The policy throws ScriptExhaustedError when the episode goes on after the last one.
 *
 * @throws EnvInputError for anything else
 */
export function scripted(replies: readonly (string | Message)[] | MessagePolicy): MessagePolicy {
  if (typeof replies === 'function') return replies
  if (!Array.isArray(replies))
    throw new EnvInputError(`scripted: expected a list of replies, or a function of the turn, got ${typeof replies}`)
  return ({ turn }) => {
    const reply = (replies as readonly (string | Message)[])[turn]
    if (reply === undefined)
      throw new ScriptExhaustedError(
        `the script has ${replies.length} replies and turn ${turn} asks for another; add one, or end the episode earlier`,
        { turn, replies: replies.length },
      )
    return reply
  }
}

/** Makes one of the legal moves of a game, each as likely as the others. The match must be given a seed. */
export const randomMoves =
  (): MessagePolicy =>
  ({ legalMoves, seed }) => {
    if (!legalMoves || legalMoves.length === 0)
      throw new EnvInputError('randomMoves: this game does not list its legal moves')
    if (seed === undefined) throw new EnvInputError('randomMoves: expected the episode to be given a seed')
    return new Random(seed).pick(legalMoves)
  }
