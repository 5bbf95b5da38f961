import { lengthRatio } from './length-ratio.js'
import { multiTurnFeedback } from './multi-turn-feedback.js'
import type { TrainTask } from './task.js'

export type { TaskRow, TrainTask } from './task.js'

/** Every task, in the order of the help text. */
export const tasks: readonly TrainTask[] = [lengthRatio, multiTurnFeedback]
