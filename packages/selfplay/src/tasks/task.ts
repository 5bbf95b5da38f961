import type { JointRewardFunction } from '@selfplay/rewards'
import type { ExternalTransition, MAGRPOConfig } from '@selfplay/trainer'
import type { Recipe } from '../recipes.js'

/** A row of a task's data set. */
export interface TaskRow {
  readonly prompt: string
}

/** Something that `selfplay train` can train. */
export interface TrainTask {
  /** As it is typed: lower case, dashes. */
  readonly name: string
  /** What is learnt, in a sentence. */
  readonly summary: string
  /** Number of agents. */
  readonly agents: number
  readonly prompts: readonly string[]
  /** Never trained on. */
  readonly unseenPrompts: readonly string[]
  readonly rewardFunc: JointRewardFunction<TaskRow>
  readonly externalTransition?: ExternalTransition<TaskRow>
  /** Settings that belong to the task rather than to a recipe. */
  readonly config?: Pick<MAGRPOConfig, 'numTurns' | 'discount'>
  readonly recipes: { readonly tiny: Recipe; readonly others: Recipe }
  /** What to say about one joint answer besides its reward, e.g. a ratio; one text per agent. */
  readonly describe: (answers: readonly string[]) => string
}
