import type { Tokenizer } from './tokenizer.js'

/** Longer tokens beside the bytes, so that boundaries fall inside tokens and texts have more than one split. */
const LONGER = [
  '\n\n',
  '  ',
  ' the',
  'th',
  'in',
  ' a',
  '12',
  '123',
  ': ',
  '</',
  'ing',
  'é',
  '漢',
  ' \n',
  '"}',
  '{"',
  'assistant',
  'user\n',
]

export interface ByteTokenizerOptions {
  /** Control tokens in the order of their ids. */
  readonly control: readonly string[]
  readonly eos?: string
  readonly bos?: string
}

/**
 * A tokenizer for tests and toy models that needs no files: each byte is a token, some longer strings are too (the longest match
 * counts), and the given control tokens come after them. Any text can be encoded.
 */
export function byteTokenizer({ control, eos, bos }: ByteTokenizerOptions): Tokenizer {
  const encoder = new TextEncoder()
  const longer = LONGER.map((token) => encoder.encode(token))
  const firstControl = 256 + longer.length
  const all = [...new Set([...control, ...(eos === undefined ? [] : [eos]), ...(bos === undefined ? [] : [bos])])]
  const idOf = new Map(all.map((token, k) => [token, firstControl + k]))
  const vocabSize = firstControl + all.length
  const bytesOf = (id: number): Uint8Array =>
    id < 256 ? Uint8Array.of(id) : (longer[id - 256] ?? encoder.encode(all[id - firstControl] ?? ''))
  const longestAt = (bytes: Uint8Array, at: number): number => {
    let best = -1
    longer.forEach((token, k) => {
      if (best >= 0 && longer[best]!.length >= token.length) return
      if (token.every((byte, offset) => bytes[at + offset] === byte)) best = k
    })
    return best
  }
  return {
    encode(text) {
      const bytes = encoder.encode(text)
      const ids: number[] = []
      for (let at = 0; at < bytes.length;) {
        const found = longestAt(bytes, at)
        ids.push(found < 0 ? bytes[at]! : 256 + found)
        at += found < 0 ? 1 : longer[found]!.length
      }
      return ids
    },
    decode(ids, options = {}) {
      const special = options.skipSpecialTokens ? (id: number) => id >= firstControl : () => false
      const bytes = Array.from(ids).flatMap((id) => (special(id) ? [] : [...bytesOf(id)]))
      return new TextDecoder('utf-8', { ignoreBOM: true }).decode(Uint8Array.from(bytes))
    },
    tokenId: (token) => idOf.get(token),
    vocabSize,
    controlIds: new Set(idOf.values()),
    ...(eos === undefined ? {} : { eosTokenId: idOf.get(eos)! }),
    ...(bos === undefined ? {} : { bosTokenId: idOf.get(bos)! }),
  }
}
