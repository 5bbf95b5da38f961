import { byteToChar, toByteChars } from './bytes.js'

/** A byte-level BPE vocabulary. Token i is `tokens[i]`, in stand-in characters; `merges` come in order of rank. */
export interface Bpe {
  readonly tokens: readonly string[]
  readonly merges: readonly (readonly [string, string])[]
}

/**
 * How text is cut into pieces that merges never cross: English suffixes after an apostrophe, words with the space before them, single digits,
 * punctuation, line ends, other white space.
 */
export const PIECE_PATTERN =
  "'(?:s|t|re|ve|m|ll|d)| ?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/** The pieces of a text. */
export const piecesOf = (text: string): string[] => text.match(new RegExp(PIECE_PATTERN, 'gu')) ?? []

interface Word {
  symbols: number[]
  readonly count: number
}

/** Pair counts over a fixed set of words, kept up to date while pairs are merged. */
class PairTable {
  readonly #words: Word[]
  readonly #counts = new Map<number, number>()
  readonly #where = new Map<number, Set<number>>()
  readonly #limit: number

  constructor(words: Word[], limit: number) {
    this.#words = words
    this.#limit = limit
    words.forEach((_, index) => this.#add(index, 1))
  }

  #add(index: number, sign: 1 | -1): void {
    const { symbols, count } = this.#words[index] as Word
    for (let i = 0; i + 1 < symbols.length; i++) {
      const key = (symbols[i] as number) * this.#limit + (symbols[i + 1] as number)
      this.#counts.set(key, (this.#counts.get(key) ?? 0) + sign * count)
      let where = this.#where.get(key)
      if (!where) this.#where.set(key, (where = new Set()))
      if (sign > 0) where.add(index)
      else where.delete(index)
    }
  }

  /** The most frequent pair; among equals the one with the smallest ids. Undefined when no pair occurs. */
  best(): readonly [number, number] | undefined {
    let bestKey = -1
    let bestCount = 0
    for (const [key, count] of this.#counts) {
      if (count > bestCount || (count === bestCount && count > 0 && key < bestKey)) [bestKey, bestCount] = [key, count]
    }
    return bestCount > 0 ? [Math.floor(bestKey / this.#limit), bestKey % this.#limit] : undefined
  }

  merge(left: number, right: number, merged: number): void {
    const affected = [...(this.#where.get(left * this.#limit + right) ?? [])]
    for (const index of affected) {
      this.#add(index, -1)
      const word = this.#words[index] as Word
      word.symbols = mergePair(word.symbols, left, right, merged)
      this.#add(index, 1)
    }
    this.#counts.delete(left * this.#limit + right)
  }
}

function mergePair(symbols: readonly number[], left: number, right: number, merged: number): number[] {
  const out: number[] = []
  for (let i = 0; i < symbols.length; i++) {
    const hit = symbols[i] === left && symbols[i + 1] === right
    out.push(hit ? merged : (symbols[i] as number))
    if (hit) i++
  }
  return out
}

/**
 * Learns byte-pair merges (Sennrich et al. 2016, on bytes) from pieces and their counts.
 *
 * @param vocabSize - number of tokens to end with, the 256 bytes included. Fewer come out when the text has no more pairs.
 * @throws RangeError when vocabSize is below 256.
 */
export function trainBpe(pieces: ReadonlyMap<string, number>, vocabSize: number): Bpe {
  if (!(vocabSize >= 256)) throw new RangeError(`vocabSize must be at least 256, one per byte, got ${vocabSize}`)
  const tokens = [...byteToChar].sort()
  const idOf = new Map(tokens.map((token, id) => [token, id]))
  const words = [...pieces]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([piece, count]) => ({ symbols: toByteChars(piece).map((char) => idOf.get(char) as number), count }))
  const table = new PairTable(words, vocabSize)
  const merges: (readonly [string, string])[] = []
  while (tokens.length < vocabSize) {
    const pair = table.best()
    if (!pair) break
    const [left, right] = pair
    const spelling: readonly [string, string] = [tokens[left] as string, tokens[right] as string]
    const known = idOf.get(spelling.join(''))
    const id = known ?? tokens.push(spelling.join('')) - 1
    idOf.set(spelling.join(''), id)
    merges.push(spelling)
    table.merge(left, right, id)
  }
  return { tokens, merges }
}

/** How often each piece occurs in the texts. */
export function countPieces(texts: Iterable<string>): Map<string, number> {
  const counts = new Map<string, number>()
  for (const text of texts) for (const piece of piecesOf(text)) counts.set(piece, (counts.get(piece) ?? 0) + 1)
  return counts
}
