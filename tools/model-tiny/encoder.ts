import { toByteChars } from './bytes.js'
import { piecesOf, type Bpe } from './bpe.js'

/** Text to ids with a cache of pieces: the training text repeats few thousand of them, so encoding costs little more than cutting. */
export interface Encoder {
  /** Ids of a text; special tokens are recognised by their spelling. */
  encode(text: string): number[]
  readonly vocabSize: number
  readonly specialIds: ReadonlyMap<string, number>
}

const escape = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')

/** The encoder of a vocabulary whose special tokens follow its other tokens, in the order given. */
export function createEncoder(bpe: Bpe, specialTokens: readonly string[]): Encoder {
  const ids = new Map(bpe.tokens.map((token, id) => [token, id]))
  const ranks = new Map(bpe.merges.map(([left, right], rank) => [`${left} ${right}`, rank]))
  const specialIds = new Map(specialTokens.map((token, index) => [token, bpe.tokens.length + index]))
  const splitter = new RegExp(`(${specialTokens.map(escape).join('|')})`, 'u')
  const cache = new Map<string, readonly number[]>()
  const encodePiece = (piece: string): readonly number[] => {
    const known = cache.get(piece)
    if (known) return known
    const encoded = mergeAll(toByteChars(piece), ranks).map((token) => ids.get(token) as number)
    if (cache.size < 50_000) cache.set(piece, encoded)
    return encoded
  }
  const encode = (text: string): number[] =>
    text.split(splitter).flatMap((part) => {
      const special = specialIds.get(part)
      return special === undefined ? piecesOf(part).flatMap(encodePiece) : [special]
    })
  return { encode, vocabSize: bpe.tokens.length + specialTokens.length, specialIds }
}

function mergeAll(symbols: string[], ranks: ReadonlyMap<string, number>): string[] {
  for (;;) {
    let at = -1
    let lowest = Infinity
    for (let i = 0; i + 1 < symbols.length; i++) {
      const rank = ranks.get(`${symbols[i]} ${symbols[i + 1]}`)
      if (rank !== undefined && rank < lowest) [at, lowest] = [i, rank]
    }
    if (at < 0) return symbols
    symbols.splice(at, 2, `${symbols[at]}${symbols[at + 1]}`)
  }
}
