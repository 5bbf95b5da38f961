import { z } from 'zod'
import { parseStrict } from '../strict-config.js'

const argsSchema = z.strictObject({
  rows: z.array(z.unknown()).optional(),
  generations: z.number().int().positive().optional(),
  temperature: z.number().nonnegative().optional(),
  seed: z.number().int().optional(),
  signal: z.instanceof(AbortSignal).optional(),
})

/** @throws ConfigError for arguments that `evaluate` does not have, or values that they cannot take. */
export function checkEvaluateArgs(args: unknown): void {
  parseStrict(argsSchema, args, 'evaluate')
}
