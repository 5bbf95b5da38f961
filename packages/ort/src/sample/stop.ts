/** Text of token ids, as a tokenizer decodes them (special tokens may be left out). */
export type Decode = (ids: readonly number[]) => string

const REPLACEMENT = '\ufffd'

/** What one token can do to the text. */
interface Piece {
  /** Fewest characters that it adds; 0 where it only may complete a character. */
  readonly atLeast: number
  /** Every character that it may add, or undefined where it adds part of a character. */
  readonly text: string | undefined
}

/**
 * Finds stop strings in the decoded text of a completion, token by token.
 *
 * A stop string can only be completed by a token that adds its last character, or part of a character; all other tokens are
 * passed over at the price of a look-up. The rest decode only as many tokens from the end as the longest stop string can span.
 * One finder serves all completions: what it remembers are facts about tokens.
 */
export class StopFinder {
  readonly #decode: Decode
  readonly #pieces = new Map<number, Piece>()
  readonly #suspects = new Map<string, Map<number, boolean>>()

  constructor(decode: Decode) {
    this.#decode = decode
  }

  /**
   * Whether one of the strings stands in the text of `tokens[0..count)`, given that none stood in that of `tokens[0..count - 1)`.
   */
  completedBy(tokens: Int32Array, count: number, strings: readonly string[]): boolean {
    const newest = tokens[count - 1]
    if (newest === undefined || !this.#suspect(newest, strings)) return false
    const longest = strings.reduce((length, string) => Math.max(length, string.length), 0)
    const text = this.#decode([...tokens.subarray(this.#windowStart(tokens, count, longest), count)])
    return strings.some((string) => text.includes(string))
  }

  /** Index of the first token to decode: `length` whole characters before the newest token, and a token more for context. */
  #windowStart(tokens: Int32Array, count: number, length: number): number {
    let start = count - 1
    let covered = 0
    while (start > 0 && covered < length) covered += this.#piece(tokens[--start] ?? 0).atLeast
    return Math.max(0, start - 4) // a character of four bytes may begin before the window
  }

  #suspect(token: number, strings: readonly string[]): boolean {
    const key = strings.join('\0')
    let known = this.#suspects.get(key)
    if (!known) this.#suspects.set(key, (known = new Map()))
    let suspect = known.get(token)
    if (suspect === undefined) {
      const { text } = this.#piece(token)
      suspect = text === undefined || strings.some((string) => text.includes(string.slice(-1)))
      known.set(token, suspect)
    }
    return suspect
  }

  #piece(token: number): Piece {
    const known = this.#pieces.get(token)
    if (known) return known
    // Some decoders drop a leading space of the first token only: look at the token alone and after itself.
    const alone = this.#decode([token])
    const twice = this.#decode([token, token])
    const partial = alone.includes(REPLACEMENT) || twice.includes(REPLACEMENT)
    const piece: Piece = { atLeast: partial ? 0 : alone.length, text: partial ? undefined : alone + twice }
    this.#pieces.set(token, piece)
    return piece
  }
}
