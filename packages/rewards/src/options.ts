import { parseStrict } from '@selfplay/renderers'
import { z } from 'zod'
import { RewardOptionsError } from './errors.js'

export { show } from '@selfplay/renderers'

/** Schema of something that is called. */
export const callable = <F>() => z.custom<F>((value) => typeof value === 'function', 'expected a function')

/** Schema of an object that has these methods. */
export const having = <T>(...methods: readonly (keyof T & string)[]) =>
  z.custom<T>(
    (value) =>
      typeof value === 'object' &&
      value !== null &&
      methods.every((name) => typeof (value as Record<string, unknown>)[name] === 'function'),
    `expected an object with ${methods.map((name) => `${name}()`).join(', ')}`,
  )

/**
 * Parses options by a strict schema.
 *
 * @param what names the options in messages, e.g. `pairwise`
 * @throws RewardOptionsError naming each option, what was expected and what came; an unknown one comes with the nearest known one
 */
export const parseOptions = <S extends z.ZodObject>(schema: S, options: unknown, what: string): z.output<S> =>
  parseStrict(schema, options, what, (message, details) => new RewardOptionsError(message, details))
