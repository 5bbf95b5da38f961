import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Datum } from '@selfplay/engine'
import { microBatches, nonFiniteAt, scatter } from './batches.js'

const datum = (length: number, trained: readonly number[]): Datum => ({
  tokens: Int32Array.from({ length }, (_, t) => t + 1),
  targets: Int32Array.from({ length }, (_, t) => t + 2),
  weights: Float32Array.from({ length }, (_, t) => (trained.includes(t) ? 2 : 0)),
  advantages: Float32Array.from({ length }, (_, t) => t / 2),
  temperature: 0.5,
})

describe('microBatches', () => {
  it('picks the trained positions and drops what follows the last of them', () => {
    const [batch, ...rest] = microBatches([datum(6, [2, 3]), datum(3, [1])], { maxTokens: 100 })
    expect(rest).toEqual([])
    expect(batch).toMatchObject({ datums: [0, 1], length: 4 })
    expect([...batch!.tokens]).toEqual([1, 2, 3, 4, 1, 2, 0, 0])
    expect([...batch!.positions]).toEqual([2, 3, 5])
    expect([...batch!.targets]).toEqual([4, 5, 3])
    expect([...batch!.weights]).toEqual([2, 2, 2])
    expect([...batch!.advantages]).toEqual([1, 1.5, 0.5])
    expect([...batch!.inverseTemperature]).toEqual([2, 2, 2])
  })

  it('have the loss that is not finite of the datum that comes first in the call', () => {
    const [batch] = microBatches([datum(4, [0, 2]), datum(6, [1, 5])], { maxTokens: 100 })
    expect(batch!.datums).toEqual([1, 0])
    expect(nonFiniteAt(batch!, Float32Array.of(1, NaN, Infinity, NaN))).toBe(2)
    expect(nonFiniteAt(batch!, Float32Array.of(1, NaN, 1, 1))).toBe(1)
    expect(nonFiniteAt(batch!, new Float32Array(4))).toBe(-1)
  })

  it('leaves out sequences in which nothing is trained', () => {
    expect(microBatches([datum(4, [])], { maxTokens: 10 })).toEqual([])
  })

  it.each([
    { sequences: 16, lanes: 1, maxTokens: 1024, rows: [8, 8] },
    { sequences: 16, lanes: 2, maxTokens: 4096, rows: [8, 8] },
    { sequences: 9, lanes: 2, maxTokens: 1024, rows: [5, 4] },
    { sequences: 20, lanes: 2, maxTokens: 1024, rows: [5, 5, 5, 5] },
    { sequences: 6, lanes: 4, maxTokens: 1024, rows: [2, 2, 2] },
    { sequences: 3, lanes: 2, maxTokens: 1024, rows: [3] }, // 384 tokens are not worth two runs
  ])('gives $lanes lanes equal shares of $sequences x 128 tokens', ({ sequences, lanes, maxTokens, rows }) => {
    const data = Array.from({ length: sequences }, () => datum(128, [127]))
    expect(microBatches(data, { maxTokens, lanes }).map(({ datums }) => datums.length)).toEqual(rows)
  })

  it('keeps every trained position once, within the limit, however the call is cut', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 30 }),
        fc.integer({ min: 1, max: 200 }),
        fc.integer({ min: 1, max: 4 }),
        (lengths, maxTokens, lanes) => {
          const data = lengths.map((length) =>
            datum(
              length,
              Array.from({ length }, (_, t) => t).filter((t) => t % 3 !== 1),
            ),
          )
          const batches = microBatches(data, { maxTokens, lanes })
          const seen = data.map(({ tokens }) => new Float32Array(tokens.length))
          for (const batch of batches) {
            expect(batch.tokens.length <= maxTokens || batch.datums.length === 1).toBe(true)
            scatter(batch, batch.weights, seen)
          }
          expect(seen).toEqual(data.map(({ weights }) => weights))
        },
      ),
      { seed: 3 },
    )
  })
})
