/** Actor-critic relatives of MAGRPO. */
export { analyseWithCritics, type CriticAnalysis, type CriticOptions, type ValueLesson } from './analyse.js'
export { iacConfigSchema, maacConfigSchema, type CriticSettings, type IACConfig, type MAACConfig } from './config.js'
export {
  answerTargets,
  completionCredit,
  normaliseAdvantages,
  placeValue,
  type CompletionCredit,
  type NodeValues,
  type TargetOptions,
} from './credit.js'
export type { AgentCritic, CriticSeat } from './critics.js'
export { IACTrainer, type IACTrainerOptions } from './iac.js'
export { MAACTrainer, type MAACTrainerOptions } from './maac.js'
export { jointState, valuedPlaces, type ValuedPlace } from './states.js'
