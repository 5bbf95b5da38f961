import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { fixedDecimals } from './fixed-decimals.js'

describe('fixedDecimals', () => {
  // What Python 3 prints for f'{value:.{digits}f}'.
  it.each([
    [0.25, 1, '0.2'],
    [0.75, 1, '0.8'],
    [1.25, 1, '1.2'],
    [2.25, 1, '2.2'],
    [2.35, 1, '2.4'],
    [2.45, 1, '2.5'],
    [0.05, 1, '0.1'],
    [0.15, 1, '0.1'],
    [0.5, 0, '0'],
    [1.5, 0, '2'],
    [2.5, 0, '2'],
    [-0.25, 1, '-0.2'],
    [-0, 1, '-0.0'],
    [-0.04, 1, '-0.0'],
    [0.125, 2, '0.12'],
    [0.375, 2, '0.38'],
    [9.96, 1, '10.0'],
    [1e22, 1, '10000000000000000000000.0'],
    [5e-324, 1, '0.0'],
    [1 / 3, 4, '0.3333'],
    [Infinity, 1, 'inf'],
    [Number.NaN, 1, 'nan'],
  ])('%f with %i decimals is %s', (value, digits, text) => {
    expect(fixedDecimals(value, digits)).toBe(text)
  })

  it('differs from toFixed only where a value is exactly between two', () => {
    fc.assert(
      fc.property(fc.double({ min: 0, max: 1e6, noNaN: true }), fc.integer({ min: 0, max: 6 }), (value, digits) => {
        const ours = fixedDecimals(value, digits)
        const isTie = Number.isInteger(value * 2 ** 20) && ours !== value.toFixed(digits)
        expect(isTie || ours === value.toFixed(digits)).toBe(true)
        expect(Math.abs(Number(ours) - value)).toBeLessThanOrEqual(0.5 * 10 ** -digits * (1 + 1e-9))
      }),
      { seed: 1 },
    )
  })

  it.each([-1, 0.5, Number.NaN])('refuses %f decimals', (digits) => {
    expect(() => fixedDecimals(1, digits)).toThrow(RangeError)
  })
})
