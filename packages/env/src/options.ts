import { parseStrict } from '@selfplay/renderers'
import { z } from 'zod'
import { EnvInputError } from './errors.js'

/**
 * Parses plain options by a strict schema.
 *
 * @param what names the options in messages, e.g. `EnvFromMessageEnv`
 * @throws EnvInputError naming each option, what was expected and what came; an unknown one comes with the nearest known one
 */
export const parseOptions = <S extends z.ZodType>(schema: S, options: unknown, what: string): z.output<S> =>
  parseStrict(schema, options, what, (message, details) => new EnvInputError(message, details))

/**
 * Makes a check that an options object has no other names, for options that are no plain data.
 *
 * The check throws EnvInputError for an unknown option, with the nearest known one.
 */
export function namesOf<T extends object>(what: string, ...names: readonly (keyof T & string)[]) {
  const schema = z.strictObject(Object.fromEntries(names.map((name) => [name, z.unknown().optional()])))
  return (options: T): void => void parseOptions(schema, options, what)
}
