import { charCount, lengthRatioReward } from '@selfplay/rewards'
import { lengthRatioTiny, lengthRatioTutorial } from '../recipes.js'
import { creativePrompts, unseenCreativePrompts } from './prompts.js'
import type { TrainTask } from './task.js'

/** Two agents answer the same prompt without seeing each other; the second is to write 2 to 3 times as many characters. */
export const lengthRatio: TrainTask = {
  name: 'length-ratio',
  summary: 'agent B learns to write 2 to 3 times as many characters as agent A, neither seeing the other',
  agents: 2,
  prompts: creativePrompts,
  unseenPrompts: unseenCreativePrompts,
  rewardFunc: lengthRatioReward({ targetMin: 2, targetMax: 3 }),
  recipes: { tiny: lengthRatioTiny, others: lengthRatioTutorial },
  describe: ([first = '', second = '']) =>
    `ratio ${charCount(first) === 0 ? '-' : (charCount(second) / charCount(first)).toFixed(1)}`,
}
