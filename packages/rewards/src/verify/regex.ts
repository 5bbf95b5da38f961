import { z } from 'zod'
import { callable, parseOptions } from '../options.js'
import { LinearRegex } from '../regex/linear-regex.js'
import { extract, extractionFailed, type Extractor } from './extract.js'
import { rejected, verdict, type Verdict } from './verdict.js'

export interface VerifyRegexOptions {
  /** Where the answer stands. Default: the whole text, trimmed. */
  readonly extract?: Extractor
}

const schema = z.strictObject({ extract: callable<Extractor>().default(() => extract.whole()) })

/** Longest text that is matched, in UTF-16 units. */
const MAX_REGEX_TEXT = 100_000

/**
 * Whether an answer has a match of a pattern somewhere; `^` and `$` tie it to the ends. The pattern runs on
 * {@link LinearRegex}, never on the built-in engine, so no answer can make it slow.
 *
 * @param pattern one that is used often is better made a `LinearRegex` once
 * @throws UnsupportedPatternError for back references, look-around, inline flags and very large counts
 */
export function verifyRegex(
  answer: string,
  pattern: RegExp | string | LinearRegex,
  options: VerifyRegexOptions = {},
): Verdict {
  const { extract: find } = parseOptions(schema, options, 'verifyRegex')
  const regex = pattern instanceof LinearRegex ? pattern : new LinearRegex(pattern)
  const found = find(answer)
  if (!found.ok) return extractionFailed(found)
  if (found.text.length > MAX_REGEX_TEXT)
    return rejected('unreadable', { detail: `the answer is longer than ${MAX_REGEX_TEXT} characters` })
  return verdict(regex.test(found.text), found.text)
}

/**
 * An extractor that takes the only match of a pattern: its first group if it has one, else all of it.
 *
 * @throws UnsupportedPatternError
 */
export function extractMatch(pattern: RegExp | string | LinearRegex): Extractor {
  const regex = pattern instanceof LinearRegex ? pattern : new LinearRegex(pattern)
  return (text) => {
    const first = text.length > MAX_REGEX_TEXT ? undefined : regex.exec(text)
    if (!first) return { ok: false, reason: 'no_answer' }
    const after = first.end > first.start ? first.end : first.end + 1
    if (after <= text.length && regex.exec(text, after)) return { ok: false, reason: 'several_answers' }
    return { ok: true, text: (first.groups[1] ?? first.groups[0]!).trim() }
  }
}
