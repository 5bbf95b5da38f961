import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { RewardProcessors } from './processors.js'

const golden = JSON.parse(readFileSync(new URL('../../../fixtures/magrpo/golden.json', import.meta.url), 'utf8')) as {
  reward_processors: { inputs: number[]; outputs: Record<string, number[]> }
}
const { inputs, outputs } = golden.reward_processors

describe('RewardProcessors', () => {
  it.each([
    ['identity', RewardProcessors.identity()],
    ['clamp_default', RewardProcessors.clamp()],
    ['clamp_0_1', RewardProcessors.clamp({ min: 0, max: 1 })],
    ['scale_100', RewardProcessors.scale({ factor: 100 })],
    ['shift_1', RewardProcessors.shift({ value: 1 })],
    ['sigmoid', RewardProcessors.sigmoid()],
    ['exp_1', RewardProcessors.exponential()],
  ])('%s has the golden values', (name, processor) => {
    inputs.forEach((input, i) => expect(processor(input)).toBeCloseTo(outputs[name]![i]!, 7))
  })

  it('composes from left to right', () => {
    const { compose, scale, shift, clamp } = RewardProcessors
    expect(compose(scale({ factor: 2 }), shift({ value: 1 }))(3)).toBe(7)
    expect(compose(shift({ value: 1 }), scale({ factor: 2 }), clamp({ max: 5 }))(3)).toBe(5)
    expect(compose()(3)).toBe(3)
  })

  it('never overflows and keeps the sign', () => {
    const extremes = [-Number.MAX_VALUE, -1e6, -710, -0, 0, 710, 1e6, Number.MAX_VALUE]
    for (const make of [
      RewardProcessors.sigmoid(),
      RewardProcessors.exponential({ factor: 3 }),
      RewardProcessors.scale({ factor: 1e300 }),
      RewardProcessors.shift({ value: Number.MAX_VALUE }),
    ]) {
      for (const reward of extremes) expect(Number.isFinite(make(reward))).toBe(true)
    }
    expect(RewardProcessors.sigmoid()(-800)).toBe(0)
    expect(RewardProcessors.sigmoid()(800)).toBe(1)
    expect(RewardProcessors.exponential()(-1e6)).toBe(-Number.MAX_VALUE)
  })

  it('refuses parameters that it does not have or cannot use', () => {
    const { scale, shift, clamp, exponential } = RewardProcessors
    const refused: [() => unknown, RegExp][] = [
      [() => scale({ factor: Number.NaN }), /scale\.factor: .* got NaN/],
      [() => shift({ value: Infinity }), /shift\.value: .* got Infinity/],
      [() => clamp({ min: 1, max: 0 }), /clamp: expected min <= max, got \{"min":1,"max":0\}/],
      [() => scale({ facter: 100 } as never), /scale has no option "facter".*factor/],
      [() => exponential({ base: 2 } as never), /exponential has no option "base"/],
    ]
    for (const [make, message] of refused) {
      expect(make).toThrow(message)
      expect(make).toThrow(expect.objectContaining({ name: 'RewardOptionsError' }) as Error)
    }
  })
})
