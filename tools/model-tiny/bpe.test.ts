import fc from 'fast-check'
import { Tokenizer as JsTokenizer } from '@huggingface/tokenizers'
import { Tokenizer as NativeTokenizer } from 'tokenizers'
import { describe, expect, it } from 'vitest'
import { countPieces, piecesOf, trainBpe } from './bpe.js'
import { byteToChar } from './bytes.js'
import { createEncoder } from './encoder.js'
import { documentAt, documentText, KINDS, SPECIAL_TOKENS } from './text/documents.js'
import { tokenizerConfig, tokenizerJson } from './tokenizer-files.js'

const texts = Array.from({ length: 2000 }, (_, i) => documentText(documentAt(1, i)))
const bpe = trainBpe(countPieces(texts.flatMap((text) => text.split(/<\|\w+\|>/))), 1000)
const json = tokenizerJson(bpe, SPECIAL_TOKENS)
const js = new JsTokenizer(json, tokenizerConfig(bpe, SPECIAL_TOKENS, 512))
const native = NativeTokenizer.fromString(JSON.stringify(json))
const encoder = createEncoder(bpe, SPECIAL_TOKENS)
const jsIds = (text: string): number[] => js.encode(text, { add_special_tokens: false }).ids
const nativeIds = async (text: string): Promise<number[]> =>
  (await native.encode(text, null, { addSpecialTokens: false })).getIds()
const jsText = (ids: number[]): string =>
  ids.length === 0 ? '' : js.decode(ids, { skip_special_tokens: false, clean_up_tokenization_spaces: false })

const AWKWARD = [
  '',
  ' ',
  'naïve café — “quoted” … 12,345.67',
  'Привет, мир! 你好，世界。 こんにちは',
  '👩‍👩‍👧‍👦 🇩🇪 🏳️‍🌈 e\u0301 \u00e9',
  'tabs\tand\r\nlines\n\n\n  indented',
  '\u00a0\u2003\u3000 spaces \ufeff and \u0085 rare ones',
  "don't we'll I'm you've it's THEY'RE",
  '\u0000\u0001\u001f control',
  '<|im_start|>user\nhi<|im_end|>\n<|endoftext|><|im_start|',
]

describe('trainBpe', () => {
  it('merges the most frequent pair first, ties by the smallest ids', () => {
    const { merges, tokens } = trainBpe(
      new Map([
        ['abab', 2],
        ['abc', 1],
      ]),
      258,
    )
    expect(merges).toEqual([
      ['a', 'b'],
      ['ab', 'ab'],
    ])
    expect(tokens.slice(256)).toEqual(['ab', 'abab'])
  })

  it('agrees with recounting every pair after every merge', () => {
    const pieces = countPieces(texts.slice(0, 60))
    expect(trainBpe(pieces, 330).merges).toEqual(recount(pieces, 330 - 256))
  })

  it('stops when nothing is left to merge', () => expect(trainBpe(new Map([['ab', 1]]), 400).tokens).toHaveLength(257))
  it('refuses a vocabulary without room for the bytes', () =>
    expect(() => trainBpe(new Map(), 255)).toThrow(/at least 256/))
  it('has one stand-in per byte', () => expect(new Set(byteToChar).size).toBe(256))
  it('cuts text into pieces that make it up again', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect(piecesOf(text).join('')).toBe(text)
      }),
    )
  })
})

/** The definition, without any bookkeeping. */
function recount(pieces: ReadonlyMap<string, number>, count: number): [string, string][] {
  const ids = new Map([...byteToChar].sort().map((token, id) => [token, id]))
  let words = [...pieces].map(([piece, n]) => ({
    n,
    symbols: Array.from(new TextEncoder().encode(piece), (byte) => byteToChar[byte] as string),
  }))
  return Array.from({ length: count }, () => {
    const counts = new Map<string, number>()
    for (const { symbols, n } of words) {
      for (let i = 0; i + 1 < symbols.length; i++) {
        const pair = `${symbols[i]} ${symbols[i + 1]}`
        counts.set(pair, (counts.get(pair) ?? 0) + n)
      }
    }
    const key = (pair: string): number =>
      pair.split(' ').reduce((k, token) => k * 10_000 + (ids.get(token) as number), 0)
    const [best = ''] = [...counts].toSorted(([a, m], [b, n]) => n - m || key(a) - key(b))[0] ?? []
    const [left = '', right = ''] = best.split(' ')
    ids.set(left + right, ids.size)
    words = words.map(({ n, symbols }) => ({ n, symbols: joinPair(symbols, left, right) }))
    return [left, right]
  })
}

function joinPair(symbols: readonly string[], left: string, right: string): string[] {
  const out: string[] = []
  for (let i = 0; i < symbols.length; i++) {
    if (symbols[i] === left && symbols[i + 1] === right) out.push(left + (symbols[++i] as string))
    else out.push(symbols[i] as string)
  }
  return out
}

describe('the tokenizer files', () => {
  it('give the same ids in JavaScript, in native code and in our encoder on generated text', async () => {
    for (const kind of KINDS) {
      for (let i = 0; i < 150; i++) {
        const text = documentText(documentAt(99, i, 'heldOut', kind))
        const ids = jsIds(text)
        expect(encoder.encode(text)).toEqual(ids)
        expect(await nativeIds(text)).toEqual(ids)
        expect(jsText(ids)).toBe(text)
      }
    }
  })

  it.each(AWKWARD)('round-trip %j the same way in both', async (text) => {
    const ids = jsIds(text)
    expect(await nativeIds(text)).toEqual(ids)
    expect(jsText(ids)).toBe(text)
    expect(await native.decode(ids, false)).toBe(text)
  })

  it('round-trip any text', async () => {
    const anyText = fc.string({ unit: 'binary', maxLength: 60 })
    await fc.assert(
      fc.asyncProperty(anyText, async (text) => {
        const ids = jsIds(text)
        expect(jsText(ids)).toBe(text)
        expect(await nativeIds(text)).toEqual(ids)
      }),
      { numRuns: 300 },
    )
  })

  it('give the special tokens the last ids, each one id', () => {
    expect(jsIds(SPECIAL_TOKENS.join(''))).toEqual([1000, 1001, 1002])
    expect(encoder.vocabSize).toBe(1003)
    expect(jsText([1000])).toBe('<|endoftext|>')
    expect(js.decode([1000], { skip_special_tokens: true, clean_up_tokenization_spaces: false })).toBe('')
  })
})
