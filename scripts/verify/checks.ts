import type { LearningCheck } from './check.js'
import { lengthRatioCheck } from './length-ratio.js'
import { multiTurnFeedbackCheck } from './multi-turn-feedback.js'
import { namingGameCheck } from './naming-game.js'
import { pairwisePreferenceCheck } from './pairwise-preference.js'

/** Every learning check, in the order of the table. */
export const checks: readonly LearningCheck[] = [
  lengthRatioCheck,
  multiTurnFeedbackCheck,
  namingGameCheck,
  pairwisePreferenceCheck,
]

/** @throws RangeError naming the checks that there are. */
export function checkNamed(name: string): LearningCheck {
  const found = checks.find((check) => check.name === name)
  if (found) return found
  throw new RangeError(`there is no check "${name}": expected one of ${checks.map((check) => check.name).join(', ')}`)
}
