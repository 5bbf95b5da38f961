/** A training core on stock onnxruntime: graphs, gradients, decoder models, sampling, checkpoints. */
export * from './autodiff/index.js'
export * from './checkpoint/index.js'
export * from './graph/index.js'
export * from './hub/index.js'
export {
  loadAgents,
  loadTrainingClient,
  OPTION_NAMES,
  type LoadedClient,
  type AgentMode,
  type LoadAgentsOptions,
  type LoadOptions,
  type TokenDecoder,
} from './load.js'
export {
  loadActorCritics,
  loadCritic,
  loadCritics,
  type Critic,
  type LoadActorCriticsOptions,
  type LoadCriticOptions,
} from './load-critic.js'
export * from './models/index.js'
export * from './runtime/index.js'
export * from './sample/index.js'
