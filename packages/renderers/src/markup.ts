/**
 * A piece of a rendered conversation, as a format describes it.
 *
 * `literal` is written by the format's author: the spellings of its markers in there mean the markers. `data` is what
 * a message says: it is encoded as plain text whatever it spells.
 */
type Piece = { readonly literal: string } | { readonly data: string }

/** A sequence of literals and data. Made with the {@link markup} tag. */
export interface Markup {
  readonly pieces: readonly Piece[]
}

/**
 * The tag that formats are written with: literal text may contain markers, interpolated strings are data and can never
 * become one, interpolated markup is put in as it is.
 *
 * ```ts
 * markup`<|im_start|>user\n${message}<|im_end|>\n`
 * ```
 */
export function markup(literals: TemplateStringsArray, ...values: readonly (string | Markup)[]): Markup {
  const pieces: Piece[] = []
  literals.forEach((literal, k) => {
    if (literal !== '') pieces.push({ literal })
    const value = values[k]
    if (typeof value === 'string') {
      if (value !== '') pieces.push({ data: value })
    } else if (value) pieces.push(...value.pieces)
  })
  return { pieces }
}

const empty: Markup = { pieces: [] }

/** Markup that is one piece of data. */
export const data = (value: string): Markup => (value === '' ? empty : { pieces: [{ data: value }] })

export const concat = (...parts: readonly Markup[]): Markup => ({ pieces: parts.flatMap((part) => part.pieces) })
