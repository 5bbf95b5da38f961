import { z } from 'zod'

/** Schema of {@link Normalisation}. */
export const normalisationSchema = z.union([
  z.enum(['sum', 'tokenMean', 'sequenceMean']),
  z.strictObject({ fixed: z.number().positive() }),
])

const normalise = normalisationSchema.optional()

/** Schema of the losses that plain data can name (all but `custom`). */
export const lossSchema = z.discriminatedUnion('name', [
  z.strictObject({ name: z.literal('cross_entropy'), normalise }),
  z.strictObject({ name: z.literal('importance_sampling'), normalise }),
  z
    .strictObject({ name: z.literal('ppo'), low: z.number().optional(), high: z.number().optional(), normalise })
    .refine(({ low = 0.8, high = 1.2 }) => low <= high, { error: 'low must not be above high', path: ['low'] }),
  z
    .strictObject({ name: z.literal('cispo'), low: z.number().optional(), high: z.number().optional(), normalise })
    .refine(({ low = 0, high = 4 }) => low <= high, { error: 'low must not be above high', path: ['low'] }),
  z.strictObject({ name: z.literal('dro'), beta: z.number().nonnegative().optional(), normalise }),
  z.strictObject({ name: z.literal('gspo'), clip: z.number().positive().optional(), normalise }),
])

/** What float32, in which a step is taken, holds: the smallest normal number, and the largest one. */
const FLOAT32 = { min: 2 ** -126, max: 2 ** 128 - 2 ** 104 } as const

interface Step {
  readonly learningRate: number
  readonly weightDecay: number
}

/** Schema of {@link OptimStepOptions}, which fills in the defaults. */
export const optimStepSchema = z
  .strictObject({
    learningRate: z.number().nonnegative(),
    beta1: z.number().min(0).lt(1).default(0.9),
    beta2: z.number().min(0).lt(1).default(0.95),
    epsilon: z.number().min(FLOAT32.min).max(FLOAT32.max).default(1e-8),
    weightDecay: z.number().nonnegative().default(0),
    maxGradNorm: z.number().positive().nullable().default(1),
  })
  .refine(({ learningRate, beta1 }) => learningRate / (1 - beta1) <= FLOAT32.max, {
    error: ({ input }) =>
      `learningRate / (1 - beta1) must fit into float32, at most 3.4e38, got ${(input as Step).learningRate}: take a smaller one`,
    path: ['learningRate'],
  })
  .refine(({ learningRate, weightDecay }) => learningRate * weightDecay <= 1, {
    error: ({ input }) => {
      const { learningRate, weightDecay } = input as Step
      return (
        `learningRate * weightDecay, the share of each weight that a step takes away, must be at most 1, ` +
        `got ${learningRate} * ${weightDecay}: take a smaller one of them`
      )
    },
    path: ['weightDecay'],
  })

/** Schema of {@link ExportOptions}. */
export const exportSchema = z.strictObject({
  dtype: z.enum(['float32', 'float16']).optional(),
  format: z.enum(['adapter', 'merged']).optional(),
})

/** Schema of a sample request's plain options (all but the prompt). */
export const samplingSchema = z.strictObject({
  numSamples: z.number().int().positive().optional(),
  maxTokens: z.number().int().positive(),
  temperature: z.number().nonnegative().optional(),
  topK: z.number().int().positive().optional(),
  topP: z.number().positive().max(1).optional(),
  stop: z.array(z.union([z.number().int().nonnegative(), z.string().min(1)])).optional(),
  seed: z.number().int().optional(),
})
