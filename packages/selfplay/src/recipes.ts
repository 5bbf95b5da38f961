/** How a learning rate can go over a run. */
export const SCHEDULES = ['constant', 'linear', 'cosine'] as const

/** Which answers of the agents are judged together. */
export const JOINT_MODES = ['aligned', 'cross'] as const

/** How a task is trained: everything that a flag of `selfplay train` can change, besides the model. */
export interface Recipe {
  /** Passes over the task's prompts. */
  readonly epochs: number
  /** Prompts per update. */
  readonly promptsPerUpdate: number
  /** Answers of each agent to each prompt. */
  readonly generations: number
  /** `aligned`: answer k of each agent together. `cross`: each with each, where judging is cheap: credit gets far less noisy. */
  readonly jointMode: (typeof JOINT_MODES)[number]
  /** Most new tokens of an answer. */
  readonly maxNewTokens: number
  readonly temperature: number
  readonly learningRate: number
  /** How the rate goes over the run; `linear` and `cosine` end at 0. */
  readonly learningRateSchedule: (typeof SCHEDULES)[number]
  /** Share of the old value that AdamW's mean of squared gradients keeps per update. */
  readonly adamBeta2: number
  /** Rank of adapters on one shared frozen model; 0: each agent trains all weights of its own. */
  readonly loraRank: number
  /** A joint answer whose reward is above it is not followed by another turn; null: all are. */
  readonly earlyTerminationThreshold: number | null
  /** Factor on the task's reward before credit is computed. */
  readonly rewardScale: number
  /** Updates per line where the progress line cannot be rewritten, and per row for trackers. */
  readonly loggingSteps: number
  /** Updates between checkpoints; there is always one at the end. */
  readonly checkpointEvery: number
  /** Prompts that are never trained on, answered before and after; 0: none. */
  readonly unseenPrompts: number
}

/** The settings of the length-ratio tutorial, for models of a size that people use. */
export const lengthRatioTutorial: Recipe = {
  epochs: 3,
  promptsPerUpdate: 1,
  generations: 8,
  jointMode: 'aligned',
  maxNewTokens: 128,
  temperature: 1,
  learningRate: 5e-5,
  learningRateSchedule: 'constant',
  adamBeta2: 0.95,
  loraRank: 0,
  earlyTerminationThreshold: null,
  rewardScale: 100,
  loggingSteps: 10,
  checkpointEvery: 10,
  unseenPrompts: 0,
}

/**
 * For the bundled model, which is small enough for many updates in little time. Adapters keep more of its English than training
 * all weights; a larger learning rate loses it, and with aligned answers some seeds stay at ratios that are too small.
 */
export const lengthRatioTiny: Recipe = {
  ...lengthRatioTutorial,
  epochs: 90,
  promptsPerUpdate: 4,
  jointMode: 'cross',
  learningRate: 2e-3,
  learningRateSchedule: 'cosine',
  adamBeta2: 0.99,
  loraRank: 8,
  loggingSteps: 20,
  checkpointEvery: 50,
  unseenPrompts: 20,
}

/** The settings of the multi-turn tutorial, for models of a size that people use. */
export const multiTurnFeedbackTutorial: Recipe = {
  ...lengthRatioTutorial,
  epochs: 2,
  generations: 4,
  maxNewTokens: 64,
  earlyTerminationThreshold: 0.9,
  rewardScale: 1,
  loggingSteps: 1,
}

/**
 * For the bundled model, see {@link lengthRatioTiny}. Good first answers are followed up as well: what it learns to make of bad
 * ones it does not carry over to those.
 */
export const multiTurnFeedbackTiny: Recipe = {
  ...multiTurnFeedbackTutorial,
  epochs: 80,
  promptsPerUpdate: 4,
  earlyTerminationThreshold: null,
  learningRate: 1e-3,
  learningRateSchedule: 'cosine',
  adamBeta2: 0.99,
  loggingSteps: 10,
  checkpointEvery: 50,
  unseenPrompts: 20,
}
