import { parseStrict as parse } from '@selfplay/renderers'
import type { z } from 'zod'
import { ConfigError } from './errors.js'

/**
 * Parses plain data by a strict schema.
 *
 * @param what names the data in messages, e.g. `config`.
 * @throws ConfigError naming each key, what was expected and what came; an unknown key comes with the nearest known one.
 */
export const parseStrict = <S extends z.ZodType>(schema: S, value: unknown, what: string): z.output<S> =>
  parse(schema, value, what, (message, details) => new ConfigError(message, details))
