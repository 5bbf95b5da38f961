import { parseStrict } from '@selfplay/renderers'
import type { z } from 'zod'
import { EnvInputError } from './errors.js'

/**
 * Parses plain options by a strict schema.
 *
 * @param what names the options in messages, e.g. `EnvFromMessageEnv`
 * @throws EnvInputError naming each option, what was expected and what came; an unknown one comes with the nearest known one
 */
export const parseOptions = <S extends z.ZodObject>(schema: S, options: unknown, what: string): z.output<S> =>
  parseStrict(schema, options, what, (message, details) => new EnvInputError(message, details))
