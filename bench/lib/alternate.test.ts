import { describe, expect, it } from 'vitest'
import { alternate } from './alternate.js'
import { median, medianValue } from './statistics.js'

describe('alternate', () => {
  it('takes turns and leaves warm-ups out', async () => {
    const order: string[] = []
    const side = (name: string) => ({
      run: async () => ({ seconds: order.push(name), values: { place: order.length } }),
    })
    const { ours, peer } = await alternate(side('A'), side('B'), { runs: 3, warmups: 1 })
    expect(order.join(' ')).toBe('A B A B A B A B')
    expect(ours.map(({ seconds }) => seconds)).toEqual([3, 5, 7])
    expect(peer.map(({ seconds }) => seconds)).toEqual([4, 6, 8])
    expect(medianValue({ samples: ours }, 'place')).toBe(5)
    expect(() => medianValue({ samples: ours }, 'other')).toThrow(/"other"/)
  })

  it('runs ours alone where there is no peer', async () => {
    const { ours, peer } = await alternate({ run: async () => ({ seconds: 1 }) }, undefined, { runs: 2, warmups: 0 })
    expect([ours.length, peer.length]).toEqual([2, 0])
  })
})

describe('median', () => {
  it('takes the middle, or the mean of the two middle ones', () => {
    expect(median([9, 1, 5])).toBe(5)
    expect(median([10, 1, 9, 2])).toBe(5.5)
    expect(() => median([])).toThrow(RangeError)
  })
})
