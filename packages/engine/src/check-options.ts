import type { z } from 'zod'
import type { Datum } from './datum.js'
import { InvalidInputError, NonFiniteError } from './errors.js'
import type { CustomLoss, Loss } from './loss.js'
import { exportSchema, lossSchema, optimStepSchema } from './schemas.js'
import type { ExportOptions, OptimStepOptions } from './training.js'

function describe(what: string, { issues }: z.ZodError): string {
  return issues.map(({ path, message }) => `${[what, ...path.map(String)].join('.')}: ${message}`).join('; ')
}

/**
 * Refuses a loss that there is not, and options that its formula does not have.
 *
 * @throws InvalidInputError naming the option, what was expected and what came.
 */
export function checkLoss(loss: Loss): void {
  if ((loss as Loss | undefined)?.name === 'custom') {
    const { name: _, compute, ...others } = loss as CustomLoss
    const other = Object.keys(others)[0]
    if (other !== undefined) throw new InvalidInputError(`loss: a custom loss has no option "${other}", only compute`)
    if (typeof compute === 'function') return
    throw new InvalidInputError(`loss.compute: expected a function over log-probs, got ${typeof compute}`)
  }
  const parsed = lossSchema.safeParse(loss)
  if (!parsed.success) throw new InvalidInputError(describe('loss', parsed.error))
}

/**
 * The options of an optimiser step with every default filled in, also where an option is there but undefined.
 *
 * @throws InvalidInputError for options that a step does not have, or values that they cannot take.
 */
export function checkOptimStep(options: OptimStepOptions): Required<OptimStepOptions> {
  const parsed = optimStepSchema.safeParse(options)
  if (!parsed.success) throw new InvalidInputError(describe('optimStep', parsed.error))
  return parsed.data
}

/** @throws InvalidInputError for options that an export does not have, or values that they cannot take. */
export function checkExport(options: ExportOptions & { readonly signal?: AbortSignal }): void {
  const { signal: _, ...plain } = options
  const parsed = exportSchema.safeParse(plain)
  if (!parsed.success) throw new InvalidInputError(describe('exportModel', parsed.error))
}

export type CustomLossResult = ReturnType<CustomLoss['compute']>

/**
 * What a user's loss returned, once it is known to be usable.
 *
 * @throws InvalidInputError for something else than a loss and a gradient per log-prob, NonFiniteError for NaN or infinity.
 */
export function checkCustomResult(result: CustomLossResult, data: readonly Datum[]): CustomLossResult {
  const given: unknown = result
  const rows: unknown = (given as Partial<CustomLossResult> | null | undefined)?.gradient
  if (given instanceof Promise || !Array.isArray(rows)) {
    const got = given instanceof Promise ? 'a promise (it must not be async)' : String(given)
    throw new InvalidInputError(`the custom loss must return {loss, gradient: one array per datum}, got ${got}`)
  }
  const { loss, gradient } = result
  data.forEach(({ tokens, weights }, datum) => {
    const row = gradient[datum]
    if (row?.length !== tokens.length) {
      throw new InvalidInputError(
        `the custom loss must return one gradient per log-prob: expected ${tokens.length} for datum ${datum}, got ${row?.length ?? 'none'}`,
        { datum, expected: tokens.length, got: row?.length },
      )
    }
    const at = row.findIndex((slope, t) => !Number.isFinite(slope) && weights?.[t] !== 0)
    if (at >= 0) {
      throw new NonFiniteError(`the custom loss has gradient ${row[at]} at datum ${datum}, position ${at}`, {
        datum,
        position: at,
      })
    }
  })
  if (!Number.isFinite(loss)) {
    throw new NonFiniteError(`the custom loss is ${loss}: weights are unchanged`, { got: loss })
  }
  return result
}
