import { z } from 'zod'
import { ExpectedAnswerError } from '../errors.js'
import { callable, parseOptions } from '../options.js'
import { extract, extractionFailed, type Extractor } from './extract.js'
import { verdict, type Verdict } from './verdict.js'

export interface NormaliseOptions {
  /** Differences of case count. Default false. */
  readonly case?: boolean
  /** Punctuation counts. Default false; that of numbers (-5, 3.14, 50%) and symbols (C++) count always. */
  readonly punctuation?: boolean
  /** The English articles a, an and the count as words. Default true. */
  readonly articles?: boolean
  /** Accents count. Default true. */
  readonly accents?: boolean
}

const normaliseSchema = z.strictObject({
  case: z.boolean().default(false),
  punctuation: z.boolean().default(false),
  articles: z.boolean().default(true),
  accents: z.boolean().default(true),
})

/**
 * Text in the form in which answers are compared: compatibility forms of Unicode joined (NFKC), then what `options` say does
 * not count taken away, and each run of white space one blank. Doing it twice changes nothing.
 */
export function normaliseText(text: string, options: NormaliseOptions = {}): string {
  const counts = parseOptions(normaliseSchema, options, 'normaliseText')
  let result = text.normalize('NFKC')
  if (!counts.accents) result = result.normalize('NFKD').replace(/\p{M}/gu, '').normalize('NFKC')
  if (!counts.case) result = result.toLowerCase().normalize('NFKC')
  if (!counts.punctuation)
    result = result.replace(/([-.,:/](?=\d)|%)|[\p{P}`]/gu, (_, ofNumber: string | undefined) => ofNumber ?? ' ')
  if (!counts.articles) result = result.replace(/(?<![\p{L}\p{N}])(?:an?|the)(?![\p{L}\p{N}])/giu, ' ')
  return result.replace(/\s+/gu, ' ').trim()
}

export interface VerifyTextOptions {
  /** `false` (default) compares as it is; `true` compares normalised text; or say what counts. */
  readonly normalise?: boolean | NormaliseOptions
  /** Where the answer stands. Default: the whole text, trimmed. */
  readonly extract?: Extractor
}

const schema = z.strictObject({
  normalise: z.union([z.boolean(), normaliseSchema]).default(false),
  extract: callable<Extractor>().default(() => extract.whole()),
})

/**
 * Whether an answer is the expected text, or one of several.
 *
 * @throws ExpectedAnswerError when nothing is expected, or only what normalises to nothing
 */
export function verifyText(
  answer: string,
  expected: string | readonly string[],
  options: VerifyTextOptions = {},
): Verdict {
  const { normalise, extract: find } = parseOptions(schema, options, 'verifyText')
  const form = (text: string) => (normalise === false ? text : normaliseText(text, normalise === true ? {} : normalise))
  const wanted = (typeof expected === 'string' ? [expected] : expected).map(form)
  if (wanted.length === 0 || (normalise !== false && wanted.includes('')))
    throw new ExpectedAnswerError(
      'verifyText: nothing is left of an expected text once it is normalised; expect another, or normalise less',
      { expected },
    )
  const found = find(answer)
  return found.ok ? verdict(wanted.includes(form(found.text)), found.text) : extractionFailed(found)
}
