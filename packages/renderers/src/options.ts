import { InvalidMessagesError } from './errors.js'
import { didYouMean } from './nearest.js'

/**
 * Refuses keys that a call does not know.
 *
 * @throws InvalidMessagesError with the nearest known key
 */
export function onlyKeys(call: string, options: object, known: readonly string[]): void {
  for (const key of Object.keys(options))
    if (!known.includes(key))
      throw new InvalidMessagesError(`${call} has no option ${JSON.stringify(key)}${didYouMean(key, known)}`, { key })
}
