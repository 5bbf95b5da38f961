import { describe, expect, it } from 'vitest'
import { pairings } from './tournament.js'

describe('pairings', () => {
  it('meets all pairs one way, both ways and in chunks', () => {
    expect(pairings(4)).toHaveLength(6)
    expect(pairings(4, { pattern: 'all_pairs_both_ways' })).toHaveLength(12)
    expect(pairings(6, { chunkSize: 3 })).toEqual([
      [0, 1],
      [0, 2],
      [1, 2],
      [3, 4],
      [3, 5],
      [4, 5],
    ])
    expect(pairings(3, { pattern: 'all_pairs_both_ways', chunkSize: 2 })).toEqual([
      [0, 1],
      [1, 0],
    ])
  })

  it('has no matches for nobody, for one, and for one alone in the last chunk', () => {
    expect(pairings(0)).toEqual([])
    expect(pairings(1)).toEqual([])
    expect(pairings(5, { chunkSize: 4 }).flat()).not.toContain(4)
  })

  it('refuses what is no number of players, chunk or pattern', () => {
    expect(() => pairings(1.5)).toThrow(/number of players/)
    expect(() => pairings(4, { chunkSize: 1 })).toThrow(/at least 2/)
    expect(() => pairings(4, { pattern: 'round_robin' as 'all_pairs_one_way' })).toThrow(/all_pairs_one_way/)
  })
})
