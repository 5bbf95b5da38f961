import { describe, expect, test } from 'vitest'
import { differencesOf, distance, gradientsOf, inBoth } from './testing/check.js'
import { specimens } from './testing/zoo.js'

describe.each(specimens)('%s', (_, specimen) => {
  test.each([1, 2, 3, 4, 5, 6, 7, 8])('shapes of seed %i', async (seed) => {
    const symbols = { b: 1 + (seed % 3) }
    const { double, single } = inBoth({ seed, symbols }, (kit) => specimen(kit, kit.parameter(kit.shape())))
    const exact = await gradientsOf(double.kit, double.loss)
    expect(distance(exact, await differencesOf(double.kit, double.loss))).toBeLessThan(1e-6)
    expect(distance(await gradientsOf(single.kit, single.loss), exact)).toBeLessThan(1e-5)
  })
})
