import { RewardOptionsError } from '../errors.js'
import { show } from '../options.js'
import { rejected, type Verdict } from './verdict.js'

/** The answer in a text, or why there is none to take. */
export type Extraction =
  | { readonly ok: true; readonly text: string }
  | { readonly ok: false; readonly reason: 'no_answer' | 'several_answers' }

/** Finds the answer in what was said. */
export type Extractor = (text: string) => Extraction

/** What to do with several answers: refuse (default), take them if they are the same text, or take the last. */
export type Several = 'refuse' | 'same' | 'last'

export interface ExtractOptions {
  readonly several?: Several
}

function choose(found: readonly string[], { several = 'refuse' }: ExtractOptions = {}): Extraction {
  const last = found.at(-1)
  if (last === undefined) return { ok: false, reason: 'no_answer' }
  const takes = found.length === 1 || several === 'last' || (several === 'same' && found.every((one) => one === last))
  return takes ? { ok: true, text: last } : { ok: false, reason: 'several_answers' }
}

const SEVERAL: readonly unknown[] = [undefined, 'refuse', 'same', 'last']

function extractor(find: (text: string) => readonly string[], options: ExtractOptions = {}): Extractor {
  if (!SEVERAL.includes(options.several))
    throw new RewardOptionsError(`several: expected refuse, same or last, got ${show(options.several)}`)
  return (text) => choose(find(text), options)
}

/**
 * Where answers stand. Each has an end that is marked, so that a number which was merely mentioned is never taken for the
 * answer. All trim what they take; one that finds only white space finds an empty answer.
 */
export const extract = {
  /** The whole text. */
  whole: (): Extractor => extractor((text) => [text.trim()]),

  /** `[answer]`, on one line and without brackets in it. */
  bracketed: (options?: ExtractOptions): Extractor => extractor((text) => between(text, '[', ']'), options),

  /** `<name>answer</name>`. */
  tagged: (name: string, options?: ExtractOptions): Extractor => {
    if (!/^[A-Za-z][\w-]*$/.test(name))
      throw new RewardOptionsError(`extract.tagged: expected the name of a tag, got ${show(name)}`)
    return extractor((text) => between(text, `<${name}>`, `</${name}>`, true), options)
  },

  /** `\boxed{answer}` with balanced braces. */
  boxed: (options?: ExtractOptions): Extractor => extractor(boxedIn, options),

  /** What follows `marker` up to the end of its line, such as `####`. */
  after: (marker: string, options?: ExtractOptions): Extractor => {
    if (marker === '') throw new RewardOptionsError('extract.after: expected a marker, got the empty string')
    return extractor(
      (text) =>
        text
          .split(marker)
          .slice(1)
          .map((rest) => rest.split('\n', 1)[0]!.trim()),
      options,
    )
  },

  /** The content of a block fenced by lines of three backticks, in one of `languages` if any are given. */
  fenced: (languages: readonly string[] = [], options?: ExtractOptions): Extractor =>
    extractor((text) => fencesIn(text, languages), options),

  /** The first of these that finds an answer; one that finds several decides as well. */
  firstOf:
    (...extractors: readonly Extractor[]): Extractor =>
    (text) => {
      for (const one of extractors) {
        const found = one(text)
        if (found.ok || found.reason === 'several_answers') return found
      }
      return { ok: false, reason: 'no_answer' }
    },
} as const

/** Each content between `open` and the next `close`, never over another `open`, nor a line end unless `lines`. */
function between(text: string, open: string, close: string, lines = false): string[] {
  const found: string[] = []
  let start = text.indexOf(open)
  while (start >= 0) {
    const from = start + open.length
    const end = text.indexOf(close, from)
    if (end < 0) break
    const next = text.indexOf(open, from)
    if (next >= 0 && next < end) {
      start = next
      continue
    }
    const content = text.slice(from, end)
    if (lines || !content.includes('\n')) found.push(content.trim())
    start = next
  }
  return found
}

function boxedIn(text: string): string[] {
  const OPEN = '\\boxed{'
  const found: string[] = []
  for (let start = text.indexOf(OPEN); start >= 0;) {
    const from = start + OPEN.length
    let depth = 1
    let end = from
    for (; end < text.length && depth > 0; end++) depth += text[end] === '{' ? 1 : text[end] === '}' ? -1 : 0
    if (depth > 0) break
    found.push(text.slice(from, end - 1).trim())
    start = text.indexOf(OPEN, end)
  }
  return found
}

function fencesIn(text: string, languages: readonly string[]): string[] {
  const found: string[] = []
  let open: { readonly taken: boolean; readonly lines: string[] } | undefined
  for (const line of text.split(/\r?\n/)) {
    const trimmed = line.trim()
    if (!open) {
      const language = trimmed.slice(3).trim().toLowerCase()
      if (trimmed.startsWith('```') && !language.includes('`'))
        open = { taken: languages.length === 0 || languages.includes(language), lines: [] }
    } else if (trimmed === '```') {
      if (open.taken) found.push(open.lines.join('\n'))
      open = undefined
    } else open.lines.push(line)
  }
  return found
}

/** The extraction as a verdict where there is no answer. */
export const extractionFailed = ({ reason }: Extract<Extraction, { ok: false }>): Verdict => rejected(reason)
