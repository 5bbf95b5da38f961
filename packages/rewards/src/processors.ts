import { z } from 'zod'
import { parseOptions } from './options.js'

/** Changes one reward before credit is computed from it. Must be finite for finite input. */
export type RewardProcessor = (reward: number) => number

const MAX = Number.MAX_VALUE
/** Keeps a result that left the range of a double at its edge, with its sign. */
const bounded = (value: number) => Math.min(Math.max(value, -MAX), MAX)

const scaleSchema = z.strictObject({ factor: z.number().default(1) })
const shiftSchema = z.strictObject({ value: z.number().default(0) })
const clampSchema = z
  .strictObject({ min: z.number().default(-10), max: z.number().default(10) })
  .refine(({ min, max }) => min <= max, 'expected min <= max')

/**
 * Reward processors. Every one maps finite numbers to finite numbers: what would overflow stays at the largest double.
 *
 * @throws RewardOptionsError for an unknown parameter, with the nearest known one; one that is not finite; or (clamp) bounds
 *   that are the wrong way round.
 */
export const RewardProcessors = {
  /** The reward as it is. */
  identity: (): RewardProcessor => (reward) => reward,

  /** `factor * reward`. Default factor 1. */
  scale: (options: { readonly factor?: number } = {}): RewardProcessor => {
    const { factor } = parseOptions(scaleSchema, options, 'scale')
    return (reward) => bounded(reward * factor)
  },

  /** `reward + value`. Default value 0. */
  shift: (options: { readonly value?: number } = {}): RewardProcessor => {
    const { value } = parseOptions(shiftSchema, options, 'shift')
    return (reward) => bounded(reward + value)
  },

  /** The nearest number within [min, max]. Default -10 to 10. */
  clamp: (options: { readonly min?: number; readonly max?: number } = {}): RewardProcessor => {
    const { min, max } = parseOptions(clampSchema, options, 'clamp')
    return (reward) => Math.min(Math.max(reward, min), max)
  },

  /** `1 / (1 + exp(-reward))`, exact at both ends. */
  sigmoid: (): RewardProcessor => (reward) => {
    if (reward >= 0) return 1 / (1 + Math.exp(-reward))
    const e = Math.exp(reward) // cannot overflow
    return e / (1 + e)
  },

  /** `sign(reward) * (exp(factor * |reward|) - 1)`: odd, and steeper the further from 0. Default factor 1. */
  exponential: (options: { readonly factor?: number } = {}): RewardProcessor => {
    const { factor } = parseOptions(scaleSchema, options, 'exponential')
    return (reward) => bounded(Math.sign(reward) * Math.expm1(factor * Math.abs(reward)))
  },

  /** Each processor on the result of the one before it. `compose()` changes nothing. */
  compose:
    (...processors: readonly RewardProcessor[]): RewardProcessor =>
    (reward) =>
      processors.reduce((value, processor) => processor(value), reward),
} as const
