import { z } from 'zod'
import { callable, parseOptions, having } from '../options.js'
import { RewardOptionsError } from '../errors.js'
import { extract, extractionFailed, type Extractor } from './extract.js'
import { rejected, type Verdict } from './verdict.js'

export interface VerifyJsonOptions {
  /** Where the answer stands. Default: a fenced block of JSON if there is one, else the whole text. */
  readonly extract?: Extractor
}

const schemaOption = having<z.ZodType>('safeParse')
const schema = z.strictObject({
  extract: callable<Extractor>().default(() => extract.firstOf(extract.fenced(['json', '']), extract.whole())),
})

/** A verdict on JSON, with the parsed value where it fits. */
export interface JsonVerdict<T> extends Verdict {
  readonly value?: T
}

/**
 * Whether an answer is JSON that fits a zod schema. The schema's transforms run; asynchronous ones cannot.
 *
 * @throws RewardOptionsError when `shape` is no zod schema
 */
export function verifyJson<S extends z.ZodType>(
  answer: string,
  shape: S,
  options: VerifyJsonOptions = {},
): JsonVerdict<z.output<S>> {
  const { extract: find } = parseOptions(schema, options, 'verifyJson')
  if (!schemaOption.safeParse(shape).success) throw new RewardOptionsError('verifyJson: expected a zod schema')
  const found = find(answer)
  if (!found.ok) return extractionFailed(found)
  let value: unknown
  try {
    value = JSON.parse(found.text)
  } catch (error) {
    return rejected('unreadable', {
      answer: found.text,
      detail: error instanceof Error ? error.message : String(error),
    })
  }
  const checked = shape.safeParse(value)
  if (checked.success) return { score: 1, reason: 'match', answer: found.text, value: checked.data }
  return rejected('invalid', { answer: found.text, detail: z.prettifyError(checked.error) })
}
