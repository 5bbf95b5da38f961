import { rolloutEvaluator } from '../../src/rl/rollout-evaluator.js'
import { letterGroup, letters, type toyRL } from './rl.js'

type Overrides = NonNullable<Parameters<typeof toyRL>[0]>

export const resumeVariants = {
  plain: {},
  'two turns, a KL penalty and substeps': {
    dataset: letters({ turns: 2 }),
    klPenalty: { coef: 0.1 },
    numSubsteps: 3,
    credit: 'turn',
    discount: 0.9,
    learningRateSchedule: 'cosine',
    warmupSteps: 3,
  },
} as const satisfies Record<string, Overrides>

/** A run of ten updates with a checkpoint every five. */
export const resumeSetup = (directory: string, variant: keyof typeof resumeVariants, resume = false): Overrides => ({
  steps: 10,
  evalEvery: 3,
  checkpointEvery: 5,
  reportEvery: 4,
  evaluators: [rolloutEvaluator('test', [letterGroup('a')], { temperature: 0.5 })],
  run: { directory, resume },
  ...resumeVariants[variant],
})
