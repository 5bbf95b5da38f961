import { InvalidInputError, NonFiniteError, type SelfplayError } from '@selfplay/engine'
import { SamplerGapError } from '../errors.js'

const KINDS = [NonFiniteError, InvalidInputError, SamplerGapError]

/**
 * An error that names the place in an update (`details.step`), with what the update left of the weights; any other as it is.
 *
 * @param stepped agents that had taken a step of the update by its end.
 */
export function withWeightsLeft(error: unknown, stepped: readonly number[]): unknown {
  const Kind = KINDS.find((kind) => error instanceof kind)
  const { message, details } = error as SelfplayError
  if (!Kind || details['step'] === undefined) return error
  const left =
    stepped.length === 0
      ? 'the weights are unchanged'
      : `agent ${stepped.join(', ')} had taken a step of this update already, the others are unchanged: resume from a checkpoint`
  return new Kind(`${message}; ${left}`, { ...details, stepped: [...stepped] })
}
