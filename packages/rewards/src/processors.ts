/** Changes one reward before credit is computed from it. Must be finite for finite input. */
export type RewardProcessor = (reward: number) => number

const MAX = Number.MAX_VALUE
/** Keeps a result that left the range of a double at its edge, with its sign. */
const bounded = (value: number) => Math.min(Math.max(value, -MAX), MAX)

const finite = (value: number, name: string): number => {
  if (!Number.isFinite(value)) throw new RangeError(`${name}: expected a finite number, got ${value}`)
  return value
}

/**
 * Reward processors. Every one maps finite numbers to finite numbers: what would overflow stays at the largest double.
 *
 * @throws RangeError when a parameter is not finite, or (clamp) the bounds are the wrong way round.
 */
export const RewardProcessors = {
  /** The reward as it is. */
  identity: (): RewardProcessor => (reward) => reward,

  /** `factor * reward`. Default factor 1. */
  scale: ({ factor = 1 }: { factor?: number } = {}): RewardProcessor => {
    finite(factor, 'scale.factor')
    return (reward) => bounded(reward * factor)
  },

  /** `reward + value`. Default value 0. */
  shift: ({ value = 0 }: { value?: number } = {}): RewardProcessor => {
    finite(value, 'shift.value')
    return (reward) => bounded(reward + value)
  },

  /** The nearest number within [min, max]. Default -10 to 10. */
  clamp: ({ min = -10, max = 10 }: { min?: number; max?: number } = {}): RewardProcessor => {
    if (!(finite(min, 'clamp.min') <= finite(max, 'clamp.max'))) {
      throw new RangeError(`clamp: expected min <= max, got ${min} and ${max}`)
    }
    return (reward) => Math.min(Math.max(reward, min), max)
  },

  /** `1 / (1 + exp(-reward))`, exact at both ends. */
  sigmoid: (): RewardProcessor => (reward) => {
    if (reward >= 0) return 1 / (1 + Math.exp(-reward))
    const e = Math.exp(reward) // cannot overflow
    return e / (1 + e)
  },

  /** `sign(reward) * (exp(factor * |reward|) - 1)`: odd, and steeper the further from 0. Default factor 1. */
  exponential: ({ factor = 1 }: { factor?: number } = {}): RewardProcessor => {
    finite(factor, 'exponential.factor')
    return (reward) => bounded(Math.sign(reward) * Math.expm1(factor * Math.abs(reward)))
  },

  /** Each processor on the result of the one before it. `compose()` changes nothing. */
  compose:
    (...processors: readonly RewardProcessor[]): RewardProcessor =>
    (reward) =>
      processors.reduce((value, processor) => processor(value), reward),
} as const
