/** Train language models by letting them play: everything from one import. */
export * from '@selfplay/engine'
export * from '@selfplay/env'
export * from '@selfplay/model-tiny'
export * from '@selfplay/ort'
export * from '@selfplay/renderers'
export * from '@selfplay/rewards'
export * from '@selfplay/trainer'
// Names that two packages have: what stands here counts.
export { writeFileAtomic, type Agent, type SkippedCheckpoint } from '@selfplay/trainer'
export { loadAgents, type LoadAgentsOptions, type LoadedAgent } from './agents.js'
export { fixedDecimals } from './fixed-decimals.js'
export { rewardCurve, type CurveOptions } from './terminal/curve.js'
export { oneLine, stripControls } from './terminal/strip.js'
