import { UnsupportedPatternError } from '../errors.js'
import { show } from '../options.js'

/** A pattern as a tree. */
export type PatternNode =
  /** One character that `source`, itself a pattern, matches. */
  | { readonly type: 'atom'; readonly source: string }
  | { readonly type: 'assert'; readonly kind: Assertion }
  | { readonly type: 'sequence' | 'choice'; readonly of: readonly PatternNode[] }
  | { readonly type: 'group'; readonly index: number; readonly of: PatternNode }
  | {
      readonly type: 'repeat'
      readonly min: number
      readonly max: number
      readonly lazy: boolean
      readonly of: PatternNode
    }

export type Assertion = 'start' | 'end' | 'boundary' | 'no_boundary'

export interface ParsedPattern {
  readonly root: PatternNode
  /** Capturing groups. */
  readonly groups: number
}

/**
 * Reads a pattern in the syntax of JavaScript's `u` flag.
 *
 * @throws UnsupportedPatternError for what is none, and for back references, look-around and inline flags
 */
export function parsePattern(source: string, flags: string): ParsedPattern {
  if (!/^[dgimsu]*$/.test(flags))
    throw new UnsupportedPatternError(`flags ${show(flags)}: only d, g, i, m, s and u can be used`, { flags })
  try {
    new RegExp(source, flags.includes('u') ? flags : `${flags}u`)
  } catch (error) {
    throw new UnsupportedPatternError(
      `${show(source)} is no pattern by the rules of the u flag: ${error instanceof Error ? error.message : String(error)}`,
      { source },
    )
  }
  return new PatternParser(source).parse()
}

const ASSERTIONS: Readonly<Record<string, Assertion>> = {
  '^': 'start',
  $: 'end',
  '\\b': 'boundary',
  '\\B': 'no_boundary',
}

/** Relies on the pattern being valid. */
class PatternParser {
  readonly #source: string
  #at = 0
  #groups = 0
  #depth = 0

  constructor(source: string) {
    this.#source = source
  }

  parse(): ParsedPattern {
    return { root: this.#choice(), groups: this.#groups }
  }

  #refuse(what: string): never {
    throw new UnsupportedPatternError(
      `${show(this.#source)} uses ${what}, which cannot be matched in linear time: say it without, or check in code`,
      { source: this.#source, at: this.#at },
    )
  }

  #match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#at
    const found = pattern.exec(this.#source)
    if (found) this.#at += found[0].length
    return found
  }

  #choice(): PatternNode {
    if (++this.#depth > 200) throw new UnsupportedPatternError('the pattern is nested more than 200 deep')
    const of = [this.#sequence()]
    while (this.#match(/\|/y)) of.push(this.#sequence())
    this.#depth--
    return of.length === 1 ? of[0]! : { type: 'choice', of }
  }

  #sequence(): PatternNode {
    const of: PatternNode[] = []
    while (this.#at < this.#source.length && !'|)'.includes(this.#source[this.#at]!)) of.push(this.#repeated())
    return { type: 'sequence', of }
  }

  #repeated(): PatternNode {
    const of = this.#single()
    const found = this.#match(/([*+?]|\{(\d+)(,?)(\d*)\})(\??)/y)
    if (!found) return of
    const [, sign, min, comma, max, lazy] = found
    const [least, most] =
      sign === '*'
        ? [0, Infinity]
        : sign === '+'
          ? [1, Infinity]
          : sign === '?'
            ? [0, 1]
            : [Number(min), max ? Number(max) : comma ? Infinity : Number(min)]
    return { type: 'repeat', min: least, max: most, lazy: lazy === '?', of }
  }

  #single(): PatternNode {
    const assertion = this.#match(/\^|\$|\\[bB]/y)
    if (assertion) return { type: 'assert', kind: ASSERTIONS[assertion[0]]! }
    if (this.#match(/\(\?<?[=!]/y)) this.#refuse('look-around')
    if (this.#match(/\\(?:[1-9]|k<)/y)) this.#refuse('a back reference')
    if (this.#match(/\(\?:/y)) return this.#closed()
    if (this.#match(/\(\?(?!<)/y)) this.#refuse('inline flags')
    if (this.#match(/\((?:\?<[^>]*>)?/y)) {
      const index = ++this.#groups
      return { type: 'group', index, of: this.#closed() }
    }
    return { type: 'atom', source: this.#atom() }
  }

  #closed(): PatternNode {
    const of = this.#choice()
    this.#at++ // the parenthesis
    return of
  }

  /** A class, an escape, or one code point. */
  #atom(): string {
    const atom =
      this.#match(/\[(?:\\.|[^\]\\])*\]/suy) ??
      this.#match(/\\(?:[pP]\{[^}]*\}|u\{[^}]*\}|u[dD][89abAB]..\\u[dD][c-fC-F]..|u....|x..|c.|.)/suy) ??
      this.#match(/./suy)
    return atom![0]
  }
}
