import { z } from 'zod'
import { ExpectedAnswerError } from '../errors.js'
import { evaluate, sameValue, type Tolerance } from '../math/evaluate.js'
import { equivalent } from '../math/equivalent.js'
import { isNumeral, parseExpression, type Expression } from '../math/parse.js'
import { callable, parseOptions, show } from '../options.js'
import { extract, extractionFailed, type Extractor } from './extract.js'
import { rejected, verdict, type Verdict } from './verdict.js'

export interface VerifyNumberOptions extends Tolerance {
  /** Where the answer stands. Default: the whole text. A number that is merely mentioned is never taken. */
  readonly extract?: Extractor
}

const schema = z.strictObject({
  absolute: z.number().nonnegative().default(0),
  relative: z.number().nonnegative().default(0),
  extract: callable<Extractor>().default(() => extract.whole()),
})

function readExpected(expected: string | number, what: string, accept: (read: Expression) => boolean): Expression {
  const read =
    typeof expected === 'number' && !Number.isFinite(expected) ? undefined : parseExpression(String(expected))
  if (!read || !accept(read))
    throw new ExpectedAnswerError(`${what}: the expected answer ${show(expected)} cannot be read as one`, { expected })
  return read
}

/**
 * Whether an answer is the expected number. Read are numerals only, so that repeating the question is no answer: `-12`,
 * `1,234.50`, `6.02e23`, `6.02 × 10^23`, `3/4`, `1 1/2`, `\frac{3}{4}`, `50%` (which is 1/2), with a currency sign or not.
 * Compared exactly (0.75 is 3/4), or within the larger of `absolute` and `relative` times the expected value.
 *
 * @throws ExpectedAnswerError when `expected` is no such numeral, or divides by zero
 */
export function verifyNumber(answer: string, expected: string | number, options: VerifyNumberOptions = {}): Verdict {
  const { extract: find, ...tolerance } = parseOptions(schema, options, 'verifyNumber')
  const wanted = evaluate(readExpected(expected, 'verifyNumber', isNumeral))
  if (!wanted)
    throw new ExpectedAnswerError(`verifyNumber: the expected number ${show(expected)} has no value`, { expected })
  const found = find(answer)
  if (!found.ok) return extractionFailed(found)
  const read = parseExpression(found.text)
  if (!read || !isNumeral(read)) return rejected('unreadable', { answer: found.text })
  const value = evaluate(read)
  return value
    ? verdict(sameValue(value, wanted, tolerance), found.text)
    : rejected('undefined_value', { answer: found.text })
}

export type VerifyMathOptions = VerifyNumberOptions

/**
 * Whether an answer is an expression of the same value, or with variables the same function, as the expected one:
 * `2(x+1)` is `2x + 2`, `\frac{\sqrt{2}}{2}` is `1/sqrt(2)`. An answer `x = 5` counts as `5`. Rational expressions are compared
 * exactly, others as doubles. An answer that repeats the question unsimplified is right too: ask for a number where one
 * can be, and use {@link verifyNumber}.
 *
 * @throws ExpectedAnswerError when `expected` cannot be read, or has no value
 */
export function verifyMath(answer: string, expected: string | number, options: VerifyMathOptions = {}): Verdict {
  const { extract: find, ...tolerance } = parseOptions(schema, options, 'verifyMath')
  const wanted = readExpected(expected, 'verifyMath', () => true)
  if (equivalent(wanted, wanted) !== 'same')
    throw new ExpectedAnswerError(`verifyMath: the expected expression ${show(expected)} has no value`, { expected })
  const found = find(answer)
  if (!found.ok) return extractionFailed(found)
  const read = parseExpression(found.text.replace(/^[\s$]*[A-Za-z]\s*=/, ''))
  if (!read) return rejected('unreadable', { answer: found.text })
  const result = equivalent(read, wanted, tolerance)
  return result === 'undefined'
    ? rejected('undefined_value', { answer: found.text })
    : verdict(result === 'same', found.text)
}
