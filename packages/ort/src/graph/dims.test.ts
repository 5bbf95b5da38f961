import { describe, expect, test } from 'vitest'
import {
  bindSymbols,
  canonicalDim,
  divideDims,
  evaluateShape,
  multiplyDims,
  sameDim,
  sameShape,
  shapeSize,
  symbolsOf,
} from './dims.js'

describe('dims', () => {
  test('have one canonical spelling', () => {
    expect(canonicalDim('seq*batch * 2')).toBe('2*batch*seq')
    expect(canonicalDim('2*3')).toBe(6)
    expect(canonicalDim('1*batch')).toBe('batch')
    expect(canonicalDim('batch*batch')).toBe('batch*batch')
    expect(canonicalDim('0*batch')).toBe(0)
    expect(canonicalDim(7)).toBe(7)
  })

  test.each([-1, 1.5, '', 'a+b', '2**b', 'a b', '-1'])('%j is refused', (dim) => {
    expect(() => canonicalDim(dim)).toThrow(/a dimension must be/)
  })

  test('multiply and divide as products', () => {
    expect(multiplyDims('batch', 2, 'seq', 3)).toBe('6*batch*seq')
    expect(multiplyDims()).toBe(1)
    expect(shapeSize(['b', 4, 'a'])).toBe('4*a*b')
    expect(divideDims('6*a*b', '2*b')).toBe('3*a')
    expect(divideDims('a*a', 'a')).toBe('a')
    expect(divideDims('3*a', 2)).toBeUndefined()
    expect(divideDims('a', 'b')).toBeUndefined()
    expect(divideDims(4, 0)).toBeUndefined()
  })

  test('compare in any spelling', () => {
    expect(sameDim('a*b', 'b*a')).toBe(true)
    expect(sameDim('a', 'b')).toBe(false)
    expect(sameShape(['a', 2], ['a', 2])).toBe(true)
    expect(sameShape(['a'], ['a', 1])).toBe(false)
    expect(symbolsOf('2*b*a*b')).toEqual(['a', 'b'])
  })

  test('take numbers once symbols are known', () => {
    expect(evaluateShape(['2*batch*seq', 5], { batch: 3, seq: 4 })).toEqual([24, 5])
    expect(() => evaluateShape(['seq'], { batch: 3 })).toThrow('the size of "seq" in "seq" is unknown')
    expect(() => evaluateShape(['toString'], {})).toThrow('unknown')
  })

  test('symbols are read off concrete shapes, through products too', () => {
    const specs = [
      { name: 'y', shape: ['2*batch*seq', 'h'] },
      { name: 'x', shape: ['batch', 3] },
    ]
    expect(bindSymbols(specs, { x: [5, 3], y: [20, 7] })).toEqual({ batch: 5, seq: 2, h: 7 })
  })

  test.each([
    ['a rank', { x: [5] }],
    ['a number', { x: [5, 4] }],
    ['two sizes of one symbol', { x: [5, 3], z: [6] }],
    ['a size that no whole symbol makes', { x: [5, 3], y: [7] }],
  ])('%s that does not fit is refused with both shapes', (_, concrete) => {
    const specs = [
      { name: 'x', shape: ['batch', 3] },
      { name: 'y', shape: ['2*n'] },
      { name: 'z', shape: ['batch'] },
    ]
    expect(() => bindSymbols(specs, concrete)).toThrow(/is declared as \[.*\] but came as \[.*\]/)
  })
})
