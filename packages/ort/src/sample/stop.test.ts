import { describe, expect, it } from 'vitest'
import { StopFinder } from './stop.js'

const encoder = new TextEncoder()

/** A byte-level vocabulary: ids 0..255 are bytes, the rest are longer pieces. */
function byteLevel(pieces: readonly string[]) {
  const bytes = [...Array.from({ length: 256 }, (_, b) => [b]), ...pieces.map((piece) => [...encoder.encode(piece)])]
  let decoded = 0
  return {
    decode: (ids: readonly number[]) => {
      decoded += ids.length
      return new TextDecoder().decode(Uint8Array.from(ids.flatMap((id) => bytes[id] ?? [])))
    },
    get decoded() {
      return decoded
    },
  }
}

/** First count of tokens at which a string stands in the text, or -1: whole text decoded each time. */
function slow(decode: (ids: readonly number[]) => string, ids: Int32Array, strings: readonly string[]): number {
  for (let n = 1; n <= ids.length; n++) {
    const text = decode([...ids.subarray(0, n)])
    if (strings.some((string) => text.includes(string))) return n
  }
  return -1
}

function fast(finder: StopFinder, ids: Int32Array, strings: readonly string[]): number {
  for (let n = 1; n <= ids.length; n++) if (finder.completedBy(ids, n, strings)) return n
  return -1
}

describe('StopFinder', () => {
  it('finds strings inside a token, across tokens, and completed by part of a character', () => {
    const { decode } = byteLevel(['Hello', ' wor', 'ld\n\nHum', 'an:', '...'])
    const finder = new StopFinder(decode)
    expect(fast(finder, Int32Array.of(256, 257, 258, 259), ['\n\nHuman:'])).toBe(4)
    expect(fast(finder, Int32Array.of(256, 257, 258, 259), ['ld'])).toBe(3)
    expect(fast(finder, Int32Array.of(256, 260, 256), ['..'])).toBe(2)
    const snowman = Int32Array.from(encoder.encode('a☃b'))
    expect(fast(finder, snowman, ['☃'])).toBe(4)
    expect(fast(finder, snowman, ['\ufffdb'])).toBe(-1)
    expect(fast(finder, Int32Array.from(encoder.encode('x😀y')), ['😀'])).toBe(5)
  })

  it('does not find what only the prompt or nothing completes', () => {
    const { decode } = byteLevel(['END'])
    expect(fast(new StopFinder(decode), Int32Array.of(69, 78, 67), ['END'])).toBe(-1)
    expect(fast(new StopFinder(decode), new Int32Array(0), ['END'])).toBe(-1)
  })

  it('agrees with decoding everything at each token', () => {
    const alphabet = ['ab', 'ba', 'é', 'aé', 'b☃', '😀', 'aba', '']
    const { decode } = byteLevel(alphabet)
    const finder = new StopFinder(decode)
    let state = 12345
    const next = (n: number) => (state = (Math.imul(state, 1103515245) + 12345) >>> 0) % n
    const loose = [...encoder.encode('ab é☃😀')]
    const stops = [['aba'], ['é☃'], ['😀a', 'bbb'], ['abab'], ['☃'], ['ba é']]
    let found = 0
    for (let round = 0; round < 400; round++) {
      const ids = Int32Array.from({ length: 24 }, () =>
        next(3) === 0 ? loose[next(loose.length)]! : 256 + next(alphabet.length),
      )
      for (const strings of stops) {
        const want = slow(decode, ids, strings)
        expect(fast(finder, ids, strings)).toBe(want)
        if (want > 0) found++
      }
    }
    expect(found).toBeGreaterThan(400)
  })

  it('sees a leading space that a decoder drops from the first token', () => {
    const words = ['▁the', '▁end', '▁']
    const decode = (ids: readonly number[]) =>
      ids
        .map((id) => words[id])
        .join('')
        .replaceAll('▁', ' ')
        .replace(/^ /, '')
    expect(fast(new StopFinder(decode), Int32Array.of(0, 1), ['the end'])).toBe(2)
    expect(fast(new StopFinder(decode), Int32Array.of(0, 2, 1), ['the '])).toBe(2)
  })

  it('decodes a bounded window, and nothing for tokens that cannot complete a stop', () => {
    const vocabulary = byteLevel(['word '])
    const finder = new StopFinder(vocabulary.decode)
    const ids = new Int32Array(5000).fill(256)
    fast(finder, ids, ['###'])
    expect(vocabulary.decoded).toBeLessThan(10)
    const before = vocabulary.decoded
    fast(finder, ids, ['# '])
    expect((vocabulary.decoded - before) / ids.length).toBeLessThan(8)
  })
})
