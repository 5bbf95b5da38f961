import { describe, expect, it } from 'vitest'
import type { RopeConfig } from './config.js'
import { ropeRows } from './decoder.js'
import { ropeFrequencies, ropeTables } from './rope.js'

const plain: RopeConfig = { type: 'default', theta: 10_000 }

describe('frequencies', () => {
  it('fall geometrically', () => {
    expect([...ropeFrequencies(plain, 4)]).toEqual([1, 0.01])
  })

  it('are divided by the factor of linear scaling', () => {
    expect([...ropeFrequencies({ type: 'linear', theta: 10_000, factor: 4 }, 4)]).toEqual([0.25, 0.0025])
  })

  it('of Llama 3: high ones stay, low ones are divided, those between are mixed', () => {
    const turns = (frequency: number) => (64 * frequency) / (2 * Math.PI)
    const rope = { type: 'llama3', theta: 1e4, factor: 8, lowFreqFactor: 1, highFreqFactor: 4 } as const
    const scaled = ropeFrequencies({ ...rope, originalMaxPositions: 64 }, 16)
    const before = ropeFrequencies({ type: 'default', theta: 1e4 }, 16)
    const expected = [...before].map((frequency) => {
      const smooth = (turns(frequency) - 1) / 3
      if (smooth >= 1) return frequency
      return smooth <= 0 ? frequency / 8 : (1 - smooth) * (frequency / 8) + smooth * frequency
    })
    expected.forEach((frequency, i) => expect(scaled[i]).toBeCloseTo(frequency, 12))
    const kinds = [...before].map((frequency) =>
      turns(frequency) >= 4 ? 'stays' : turns(frequency) > 1 ? 'mixed' : 'cut',
    )
    expect(new Set(kinds)).toEqual(new Set(['stays', 'mixed', 'cut']))
  })
})

describe('tables', () => {
  const tables = ropeTables({ rope: plain, headDim: 4, maxPositions: 2000 })

  it('cover the context, and hold single-precision cosines and sines of double-precision angles', () => {
    expect([tables.positions, tables.cos.length, tables.sin.length]).toEqual([2000, 4000, 4000])
    expect([tables.cos[0], tables.sin[0]]).toEqual([1, 0])
    expect(tables.cos[2 * 1999]).toBe(Math.fround(Math.cos(1999)))
    expect(tables.sin[2 * 1999 + 1]).toBe(Math.fround(Math.sin(1999 * 0.01)))
  })

  it('give their first rows without a copy', () => {
    const { cos, sin } = ropeRows(tables, 3)
    expect([cos.length, sin.length, cos.buffer === tables.cos.buffer]).toEqual([6, 6, true])
    expect([...cos]).toEqual([...ropeTables({ rope: plain, headDim: 4, maxPositions: 3 }).cos])
  })
})
