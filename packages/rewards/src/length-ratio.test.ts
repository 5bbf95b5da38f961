import { describe, expect, it } from 'vitest'
import { charCount, lengthRatio, lengthRatioReward } from './length-ratio.js'

const node = {
  prompts: ['p', 'p'],
  row: {},
  turn: 1,
  history: { prompts: [[], []], responses: [[], []] },
}
const options = { signal: new AbortController().signal }

describe('charCount', () => {
  it.each([
    ['', 0],
    ['abc', 3],
    ['é', 1],
    ['e\u0301', 2],
    ['😀', 1],
    ['👩‍👩‍👧', 5],
    ['\ud800x', 2],
  ])('counts the code points of %j', (text, count) => expect(charCount(text)).toBe(count))
})

describe('lengthRatio', () => {
  it.each([
    ['ab', 'abcd', 1],
    ['ab', 'abcdef', 1],
    ['ab', 'ab', Math.exp(-1)],
    ['ab', 'abcdefgh', Math.exp(-1)],
    ['ab', '', Math.exp(-2)],
    ['😀', '😀😀', 1],
    ['', 'abc', 0],
    ['', '', 0],
  ])('%j and %j', (first, second, reward) => expect(lengthRatio(first, second)).toBeCloseTo(reward, 12))

  it('can count an empty first text as one character', () => {
    expect(lengthRatio('', 'ab', { emptyFirst: 'countAsOne' })).toBe(1)
    expect(lengthRatio('', '', { emptyFirst: 'countAsOne' })).toBeCloseTo(Math.exp(-2), 12)
  })

  it('has other targets on request, and refuses impossible ones', () => {
    expect(lengthRatio('ab', 'ab', { targetMin: 1, targetMax: 1 })).toBe(1)
    expect(() => lengthRatioReward({ targetMin: 4 })).toThrow(/targetMin <= targetMax/)
    expect(() => lengthRatioReward({ targetMin: Number.NaN })).toThrow(/targetMin: .* got NaN/)
    expect(() => lengthRatioReward({ targetmax: 4 } as never)).toThrow(/no option "targetmax".*targetMax/)
    expect(() => lengthRatio('a', 'b', { emptyFirst: 'one' } as never)).toThrow(/emptyFirst/)
  })

  it('judges all joint answers of a node at once', async () => {
    expect(
      await lengthRatioReward()(
        {
          ...node,
          completions: [
            ['a', 'ab', ''],
            ['aa', 'ab', 'x'],
          ],
        },
        options,
      ),
    ).toEqual([1, Math.exp(-1), 0])
  })
})
