import { charCount, lengthRatioReward } from '@selfplay/rewards'
import type { ExternalTransition } from '@selfplay/trainer'
import { fixedDecimals } from '../fixed-decimals.js'
import { multiTurnFeedbackTiny, multiTurnFeedbackTutorial } from '../recipes.js'
import { lengthRatio } from './length-ratio.js'
import type { TaskRow, TrainTask } from './task.js'

/** The next turn's prompts of the multi-turn tutorial: the original one, how long the answers were, and what is wanted. */
const lengthFeedback: ExternalTransition<TaskRow> = ({ prompt, agentCompletions }) => {
  const lengths = agentCompletions.map((text) => charCount(text))
  const ratio = fixedDecimals(lengths[1]! / Math.max(lengths[0]!, 1), 1)
  return lengths.map(
    (length) =>
      `${prompt}\n\nYour last answer had ${length} characters. ` +
      `The second answer was ${ratio} times as long as the first; ` +
      'the goal is 2 to 3 times. Please write an improved answer.',
  )
}

/** Length ratio over two turns: after the first answers the agents are told how long they were, and answer again. */
export const multiTurnFeedback: TrainTask = {
  ...lengthRatio,
  name: 'multi-turn-feedback',
  summary:
    'agent B learns to write 2 to 3 times as many characters as agent A over two turns: both are told the lengths of their ' +
    'answers, then answer again',
  rewardFunc: lengthRatioReward({ targetMin: 2, targetMax: 3, emptyFirst: 'countAsOne' }),
  externalTransition: lengthFeedback,
  config: { numTurns: 2 },
  recipes: { tiny: multiTurnFeedbackTiny, others: multiTurnFeedbackTutorial },
}
