import { InvalidInputError } from '@selfplay/engine'
import { describe, expect, test } from 'vitest'
import { shapePattern, Symbols } from './symbols.js'

const x = (shape: (number | string)[]) => shapePattern('input "x"', shape)
const y = (shape: (number | string)[]) => shapePattern('input "y"', shape)

function solved(...pairs: [ReturnType<typeof x>, number[]][]): Symbols {
  const symbols = new Symbols()
  for (const [pattern, dims] of pairs) symbols.match(pattern, dims)
  symbols.solve()
  return symbols
}

describe('symbols', () => {
  test('plain ones take the size that came', () => {
    const symbols = solved([x(['batch', 'seq', 3]), [2, 5, 3]])
    expect(symbols.values(['seq', 'batch', '2*batch*seq', 7])).toEqual([5, 2, 20, 7])
    expect(symbols.value('other')).toBeUndefined()
    expect(symbols.values(['batch', 'other'])).toBeUndefined()
  })

  test('a product is solved for its one unknown, whatever the order', () => {
    expect(solved([x(['batch*seq']), [12]], [y(['batch']), [4]]).value('seq')).toBe(3)
    expect(solved([x(['2*heads']), [12]]).value('heads')).toBe(6)
    expect(solved([x(['a*b', 'b*c', 'c']), [6, 15, 5]]).values(['a', 'b', 'c'])).toEqual([2, 3, 5])
  })

  test('a product of two unknowns stays open, but is checked once they are known', () => {
    expect(solved([x(['a*b']), [6]]).value('a')).toBeUndefined()
    expect(() => solved([x(['a*b']), [6]], [y(['a', 'b']), [2, 4]])).toThrow(/"a\*b", expected 8 \(.*\), got 6/)
  })

  test('zero is a size like any other', () => {
    expect(solved([x(['batch', 'batch*seq']), [0, 0]]).value('batch')).toBe(0)
    expect(() => solved([x(['batch', 'batch*seq']), [0, 3]])).toThrow(InvalidInputError)
  })

  test('contradictions name the tensor, the axis, both sizes and where the first came from', () => {
    expect(() => solved([x(['batch', 3]), [2, 3]], [y(['batch']), [4]])).toThrow(
      'input "y": axis 0 is "batch", expected 2 (batch = 2 from axis 0 of input "x"), got 4',
    )
    expect(() => solved([x([3]), [4]])).toThrow('input "x": axis 0 is 3, expected 3, got 4')
    expect(() => solved([x(['batch', 3]), [2]])).toThrow('input "x": expected shape [batch, 3], got [2] (rank 1)')
    expect(() => solved([x(['2*a']), [5]])).toThrow('expected a multiple of 2, got 5')
    // The repeated factor is the one that is unknown twice: left open rather than solved wrongly.
    expect(solved([x(['a*a']), [9]]).value('a')).toBeUndefined()
  })
})
