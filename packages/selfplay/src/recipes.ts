/** How a task is trained: everything that a flag of `selfplay train` can change, besides the model. */
export interface Recipe {
  /** Passes over the task's prompts. */
  readonly epochs: number
  /** Prompts per update. */
  readonly promptsPerUpdate: number
  /** Answers of each agent to each prompt. */
  readonly generations: number
  /** Most new tokens of an answer. */
  readonly maxNewTokens: number
  readonly temperature: number
  readonly learningRate: number
  /** Rank of adapters on one shared frozen model; 0: each agent trains all weights of its own. */
  readonly loraRank: number
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
  maxNewTokens: 128,
  temperature: 1,
  learningRate: 5e-5,
  loraRank: 0,
  rewardScale: 100,
  loggingSteps: 10,
  checkpointEvery: 10,
  unseenPrompts: 0,
}

/** For the bundled model: small enough for many updates in little time, and for a large learning rate. */
export const lengthRatioTiny: Recipe = {
  ...lengthRatioTutorial,
  epochs: 16,
  learningRate: 5e-4,
  checkpointEvery: 40,
  unseenPrompts: 20,
}

/** The settings of the multi-turn tutorial, for models of a size that people use. */
export const multiTurnFeedbackTutorial: Recipe = {
  ...lengthRatioTutorial,
  epochs: 2,
  generations: 4,
  maxNewTokens: 64,
  rewardScale: 1,
  loggingSteps: 1,
}

/** For the bundled model, see {@link lengthRatioTiny}. */
export const multiTurnFeedbackTiny: Recipe = {
  ...multiTurnFeedbackTutorial,
  epochs: 60,
  promptsPerUpdate: 4,
  learningRate: 1e-3,
  loggingSteps: 10,
  checkpointEvery: 50,
  unseenPrompts: 20,
}
