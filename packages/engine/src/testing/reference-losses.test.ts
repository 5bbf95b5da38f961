import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Datum } from '../datum.js'
import type { Loss, Normalisation } from '../loss.js'
import { referenceLoss } from './reference-losses.js'

const LOSSES: Exclude<Loss, { name: 'custom' }>[] = [
  { name: 'cross_entropy' },
  { name: 'importance_sampling' },
  { name: 'ppo' },
  { name: 'dro', beta: 0.2 },
  { name: 'gspo', clip: 0.3 },
]

const datum = (T: number, numbers: readonly number[]): Datum => ({
  tokens: new Int32Array(T),
  targets: new Int32Array(T),
  weights: Float32Array.from({ length: T }, (_, t) => (t % 4 === 0 ? 0 : 1 + (t % 3))),
  advantages: Float32Array.from({ length: T }, (_, t) => numbers[t % numbers.length]!),
  samplerLogprobs: Float32Array.from({ length: T }, (_, t) => -2 + 0.2 * Math.sin(t)),
})

describe('referenceLoss', () => {
  it.each(LOSSES)('$name: the derivative is that of the value', (loss) => {
    fc.assert(
      fc.property(
        fc.array(fc.double({ min: -2, max: 2, noNaN: true }), { minLength: 3, maxLength: 5 }),
        fc.constantFrom<Normalisation>('sum', 'tokenMean', 'sequenceMean', { fixed: 7 }),
        (numbers, normalise) => {
          const data = [datum(5, numbers), datum(3, numbers)]
          const logprobs = data.map(({ tokens }, d) => Array.from(tokens, (_, t) => -2 + 0.37 * Math.cos(2 * t + d)))
          const { gradient } = referenceLoss({ ...loss, normalise }, data, logprobs)
          const h = 1e-6
          for (const [d, row] of logprobs.entries()) {
            for (const [t, at] of row.entries()) {
              const nudged = (by: number) =>
                referenceLoss(
                  { ...loss, normalise },
                  data,
                  logprobs.map((r, i) => r.map((x, j) => (i === d && j === t ? at + by : x))),
                ).loss
              const numeric = (nudged(h) - nudged(-h)) / (2 * h)
              expect(Math.abs(numeric - gradient[d]![t]!)).toBeLessThan(1e-6 * (1 + Math.abs(numeric)))
            }
          }
        },
      ),
      { seed: 1, numRuns: 20 },
    )
  })

  it('cispo: the ratio is clipped and held constant', () => {
    const data: Datum[] = [
      {
        tokens: new Int32Array(2),
        targets: new Int32Array(2),
        advantages: Float32Array.of(1, -2),
        samplerLogprobs: Float32Array.of(-3, -3),
      },
    ]
    // ratios e^2 = 7.39 (clipped to 4) and e^1 = 2.718
    const { loss, gradient } = referenceLoss({ name: 'cispo' }, data, [[-1, -2]])
    expect(loss).toBeCloseTo(-(4 * 1 * -1) - Math.E * -2 * -2, 10)
    expect(gradient[0]![0]).toBeCloseTo(-4, 10)
    expect(gradient[0]![1]).toBeCloseTo(2 * Math.E, 10)
  })

  it('at ratio 1 importance_sampling, ppo and cispo have one gradient', () => {
    const data = [{ ...datum(6, [0.5, -1, 2]) }]
    const logprobs = [Array.from(data[0]!.samplerLogprobs!)]
    const [first, ...others] = (['importance_sampling', 'ppo', 'cispo'] as const).map(
      (name) => referenceLoss({ name }, data, logprobs).gradient,
    )
    for (const other of others) expect(other).toEqual(first)
  })
})
