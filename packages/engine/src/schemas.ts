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

/** Schema of {@link OptimStepOptions}, which fills in the defaults. */
export const optimStepSchema = z.strictObject({
  learningRate: z.number().nonnegative(),
  beta1: z.number().min(0).lt(1).default(0.9),
  beta2: z.number().min(0).lt(1).default(0.95),
  epsilon: z.number().positive().default(1e-8),
  weightDecay: z.number().nonnegative().default(0),
  maxGradNorm: z.number().positive().nullable().default(1),
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
