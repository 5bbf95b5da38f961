/** Train language models by letting them play: everything from one import. */
export * from '@selfplay/engine'
export * from '@selfplay/env'
export * from '@selfplay/model-tiny'
export * from '@selfplay/ort'
export * from '@selfplay/renderers'
export * from '@selfplay/rewards'
export * from '@selfplay/trainer'
// One shape in two packages.
export { type CallOptions } from '@selfplay/engine'
export { loadAgents, loadTrainingClient, type LoadAgentsOptions, type LoadedAgent, type LoadOptions } from './agents.js'
export { complete, type CompleteOptions } from './complete.js'
export {
  loadActorCritics,
  loadCritic,
  loadCritics,
  type LoadActorCriticsOptions,
  type LoadCriticOptions,
  type LoadedActorCritic,
  type LoadedCritic,
} from './critics.js'
export { type ModelChoice, type TrainedModel } from './train-model.js'
export { trainRL, type TrainRLConfig, type TrainRLResult } from './train-rl.js'
export { trainSupervised, type TrainSupervisedConfig, type TrainSupervisedResult } from './train-supervised.js'
export { fixedDecimals } from './fixed-decimals.js'
export { rewardCurve, type CurveOptions } from './terminal/curve.js'
export { oneLine, stripControls } from './terminal/strip.js'
