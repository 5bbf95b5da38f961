export { cacheHeadDim, type LayerCache } from './cached-attention.js'
export {
  type Architecture,
  type ModelConfig,
  readModelConfig,
  type RopeConfig,
  SUPPORTED_ARCHITECTURES,
} from './config.js'
export { cacheNames, cacheOutputs, decodeStep, type DecodeStep, prefill, type Prefill } from './decode.js'
export { attentionMask, decoder, decoderInputs, type DecoderInputs, maskName, ropeRows } from './decoder.js'
export { ModelConfigError, UnsupportedModelError, WeightMismatchError } from './errors.js'
export {
  type Head,
  type HeadGradients,
  headInputs,
  type HeadInputs,
  logprobHead,
  type TrainedHead,
  trainedHead,
} from './head.js'
export type { DecoderWeights, LoraPair, LoraSource, WeightSource } from './layers.js'
export { ropeFrequencies, ropeTables, type RopeTables } from './rope.js'
export {
  checkWeights,
  headWeightName,
  LINEAR_NAMES,
  linearLayers,
  type LinearName,
  type LinearSpec,
  modelWeights,
  parameterCount,
  type StoredTensor,
  type WeightSpec,
} from './weights.js'
