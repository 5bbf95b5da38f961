import { describe, expect, it } from 'vitest'
import { Random, deriveSeed } from './random.js'

describe('Random', () => {
  it('gives the same stream for the same seed, and goes on from its state', () => {
    const stream = (random: Random) => Array.from({ length: 5 }, () => random.word())
    expect(stream(new Random(1))).toEqual(stream(new Random(1)))
    expect(stream(new Random(1))).not.toEqual(stream(new Random(2)))
    const random = new Random(3)
    random.word()
    const { state } = random
    expect(stream(new Random(state))).toEqual(stream(random))
  })

  it('is uniform', () => {
    const random = new Random(4)
    const counts = [0, 0, 0, 0, 0]
    for (let k = 0; k < 50_000; k++) counts[random.below(5)]!++
    for (const count of counts) expect(Math.abs(count - 10_000)).toBeLessThan(500) // 5.6 standard deviations
    expect(new Set(random.shuffle([1, 2, 3]))).toEqual(new Set([1, 2, 3]))
  })

  it('derives a seed for each place', () => {
    const seeds = new Set([deriveSeed(1), deriveSeed(1, 1), deriveSeed(1, 1, 2), deriveSeed(1, 12), deriveSeed(2, 1)])
    expect(seeds.size).toBe(5)
    expect(deriveSeed(1, 'a', 2)).toBe(deriveSeed(1, 'a', 2))
  })
})
