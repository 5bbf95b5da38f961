import { describe, expect, it } from 'vitest'
import { derivedSeed, philox, seedKey, TokenStream } from './random.js'

const hex = (words: Uint32Array) => [...words].map((word) => word.toString(16).padStart(8, '0')).join(' ')

const zeros = (n: number): number[] => Array.from({ length: n }, () => 0)

/** Chi-square of counts against equal expectation. */
function chiSquare(counts: readonly number[]): number {
  const expected = counts.reduce((sum, count) => sum + count, 0) / counts.length
  return counts.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0)
}

/** Above it lies less than one in 10,000 (Wilson-Hilferty). */
function chiSquareLimit(degrees: number): number {
  const h = 2 / (9 * degrees)
  return degrees * (1 - h + 3.719 * Math.sqrt(h)) ** 3
}

describe('philox', () => {
  it('gives the published answers', () => {
    const out = new Uint32Array(4)
    philox(out, [0, 0], 0, 0, 0, 0)
    expect(hex(out)).toBe('6627e8d5 e169c58d bc57ac4c 9b00dbd8')
    philox(out, [0xffffffff, 0xffffffff], 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff)
    expect(hex(out)).toBe('408f276d 41c83b0e a20bc7c6 6d5451fd')
    philox(out, [0xa4093822, 0x299f31d0], 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344)
    expect(hex(out)).toBe('d16cfe09 94fdcceb 5001e420 24126ea1')
  })

  it('takes any safe integer as seed', () => {
    expect(seedKey(5)).toEqual([5, 0])
    expect(seedKey(2 ** 32 + 7)).toEqual([7, 1])
    expect(seedKey(-1)).toEqual([0xffffffff, 0xffffffff])
    expect(seedKey(Number.MAX_SAFE_INTEGER)).toEqual([0xffffffff, 0x1fffff])
  })
})

describe('TokenStream', () => {
  const out = new Float32Array(2)
  const draw = (seed: number, index: number, position: number) => {
    new TokenStream(seed, index).draw(position, out, 0)
    return [out[0] ?? 0, out[1] ?? 0] as const
  }

  it('is a function of seed, completion and position', () => {
    expect(draw(1, 2, 3)).toEqual(draw(1, 2, 3))
    const others = [draw(1, 2, 3), draw(2, 2, 3), draw(1, 3, 3), draw(1, 2, 4), draw(1 + 2 ** 32, 2, 3)]
    expect(new Set(others.map(String)).size).toBe(others.length)
  })

  it('is uniform along positions, completions and seeds', () => {
    const axes = [(n: number) => draw(9, 4, n), (n: number) => draw(9, n, 17), (n: number) => draw(n, 0, 0)]
    for (const axis of axes) {
      const first = zeros(64)
      const second = zeros(64)
      const pairs = zeros(256)
      let before = 0
      for (let n = 0; n < 40_000; n++) {
        const [u, v] = axis(n)
        expect(u >= 0 && u < 1 && v >= 0 && v < 1).toBe(true)
        first[Math.floor(u * 64)]!++
        second[Math.floor(v * 64)]!++
        pairs[Math.floor(u * 16) * 16 + Math.floor(before * 16)]!++ // neighbours along the axis
        before = u
      }
      expect(chiSquare(first)).toBeLessThan(chiSquareLimit(63))
      expect(chiSquare(second)).toBeLessThan(chiSquareLimit(63))
      expect(chiSquare(pairs)).toBeLessThan(chiSquareLimit(255))
    }
  })

  it('has two independent numbers per draw', () => {
    const pairs = zeros(256)
    for (let n = 0; n < 40_000; n++) {
      const [u, v] = draw(3, n & 7, n >> 3)
      pairs[Math.floor(u * 16) * 16 + Math.floor(v * 16)]!++
    }
    expect(chiSquare(pairs)).toBeLessThan(chiSquareLimit(255))
  })
})

describe('derivedSeed', () => {
  it('is an integer that differs along n and from seed to seed', () => {
    const seeds = Array.from({ length: 1000 }, (_, n) => derivedSeed(0, n))
    expect(seeds.every((seed) => Number.isSafeInteger(seed) && seed >= 0)).toBe(true)
    expect(new Set(seeds).size).toBe(1000)
    expect(derivedSeed(1, 0)).not.toBe(derivedSeed(0, 0))
    expect(derivedSeed(7, 3)).toBe(derivedSeed(7, 3))
  })
})
