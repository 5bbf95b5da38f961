import type { OptimStepOptions } from '@selfplay/engine'
import { z } from 'zod'
import { scheduleFactor } from './schedule.js'

const positiveInt = z.number().int().positive()

/** How the learning rate begins and ends, and AdamW. */
export const adamwSettings = {
  /** Updates over which the rate rises. Default 0. */
  warmupSteps: z.number().int().nonnegative().default(0),
  /** What is left of the rate at the end of a linear or cosine schedule, as a fraction. Default 0. */
  finalLearningRateFraction: z.number().min(0).max(1).default(0),
  /** AdamW beta 1. Default 0.9. */
  adamBeta1: z.number().min(0).lt(1).default(0.9),
  /** AdamW beta 2. Default 0.95: 0.999 forgets too slowly for short runs. */
  adamBeta2: z.number().min(0).lt(1).default(0.95),
  /** AdamW epsilon. Default 1e-8. */
  adamEpsilon: z.number().positive().default(1e-8),
  /** Decoupled weight decay. Default 0. */
  weightDecay: z.number().nonnegative().default(0),
  /** Clip of the global gradient norm; null: off. Default 1: one bad batch cannot ruin a run. */
  maxGradNorm: z.number().positive().nullable().default(1),
}

/** How a rate may go over a run. */
export const learningRateSchedule = z.enum(['constant', 'linear', 'cosine'])

/** Settings of the optimiser and of how the learning rate goes over a run. */
export const optimiserSettings = {
  /** Learning rate. No default: it belongs to the model and the task. */
  learningRate: z.number().positive(),
  /** How the rate goes over the run. */
  learningRateSchedule,
  ...adamwSettings,
}

/** Settings of checkpoints and of how a run ends. */
export const runSettings = {
  /** Updates between checkpoints; 0: only at the end and on abort. Default 20. */
  checkpointEvery: z.number().int().nonnegative().default(20),
  /** Newest checkpoints to keep, besides the best one. Default 2. */
  keepCheckpoints: positiveInt.default(2),
  /** Updates between evaluations; 0: only before the first update and after the last. Default 20. */
  evalEvery: z.number().int().nonnegative().default(20),
  /** How long an abort waits for an update whose first weights have already changed, in seconds. Default 3. */
  abortGraceSeconds: z.number().nonnegative().default(3),
}

const optimiserSchema = z.object(optimiserSettings)
export type OptimiserSettings = z.output<typeof optimiserSchema>

/** The optimiser's options for the update after `step` finished ones of `totalSteps`. */
export function optimiserOptions(settings: OptimiserSettings, step: number, totalSteps: number): OptimStepOptions {
  const schedule = {
    kind: settings.learningRateSchedule,
    warmupSteps: settings.warmupSteps,
    finalFraction: settings.finalLearningRateFraction,
  }
  return {
    learningRate: settings.learningRate * scheduleFactor(schedule, step, totalSteps),
    beta1: settings.adamBeta1,
    beta2: settings.adamBeta2,
    epsilon: settings.adamEpsilon,
    weightDecay: settings.weightDecay,
    maxGradNorm: settings.maxGradNorm,
  }
}
