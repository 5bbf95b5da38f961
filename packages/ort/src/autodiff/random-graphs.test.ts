import { describe, expect, test } from 'vitest'
import type { Value } from '../graph/index.js'
import { distance, gradientsOf, inBoth, slopesAlong } from './testing/check.js'
import type { Kit } from './testing/kit.js'
import { specimens } from './testing/zoo.js'

const graphs = 200
const stepsPerGraph = 8

/** Keeps numbers and sizes small, so that differences stay exact and graphs do not blow up. */
function tamed(kit: Kit, x: Value): Value {
  const small = kit.count(x) > 48 || x.shape.length > 3 ? kit.g.reduceMean(x, { axes: [0] }) : x
  return kit.g.tanh(small)
}

/** A graph of all ops in turn, whose values go to several places; the last sums up everything. */
function grow(kit: Kit, first: number, used: Set<string>): Value {
  const { g } = kit
  const pool = [kit.parameter(kit.shape(1)), kit.parameter(kit.shape(0))]
  for (let step = 0; step < stepsPerGraph; step++) {
    const [name, specimen] = specimens[(first + step) % specimens.length]!
    used.add(name)
    // Early values are drawn again and again, so they have many consumers.
    const x = pool[Math.min(kit.below(pool.length), kit.below(pool.length))]!
    pool.push(tamed(kit, specimen(kit, x)))
  }
  return pool.map((value) => g.reduceMean(value)).reduce((sum, value) => g.add(g.mul(sum, 0.9), value))
}

const used = new Set<string>()

describe('random graphs', () => {
  test.each(Array.from({ length: graphs }, (_, i) => i))('%i', async (seed) => {
    const first = (seed * stepsPerGraph * 5 + Math.floor(seed / 13)) % specimens.length
    const { double, single } = inBoth({ seed: 1000 + seed, symbols: { b: 1 + (seed % 3) } }, (kit) =>
      grow(kit, first, used),
    )
    const exact = await gradientsOf(double.kit, double.loss)
    for (const direction of [1, 2]) {
      const { byDifference, byGradient } = await slopesAlong(double.kit, double.loss, exact, direction)
      expect(Math.abs(byDifference - byGradient)).toBeLessThan(1e-6 * Math.max(0.1, Math.abs(byGradient)))
    }
    expect(distance(await gradientsOf(single.kit, single.loss), exact)).toBeLessThan(1e-5)
  })

  test('used every op that has a gradient', () => {
    expect([...used].toSorted()).toEqual(specimens.map(([name]) => name).toSorted())
  })
})
