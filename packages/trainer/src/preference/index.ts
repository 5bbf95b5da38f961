/** Learning from preferences between joint answers. */
export { collectPairs, type CollectOptions, type Collected } from './collect.js'
export { madpoConfigSchema, type MADPOConfig, type PreferenceSettings } from './config.js'
export { dpoLoss, type DpoLoss } from './dpo.js'
export { learnPairs, type LearnPairsOptions } from './learn-pairs.js'
export { MADPOTrainer, type MADPOTrainerOptions, type MADPOUpdate } from './madpo.js'
export { PAIRS_FORMAT, readPairs, writePairs } from './pairs-file.js'
export { selectPairs, type CandidatePair, type PairSide, type PreferencePair } from './pairs.js'
