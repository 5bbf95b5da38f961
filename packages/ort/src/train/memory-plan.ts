import type { Datum } from '@selfplay/engine'
import type { ModelConfig } from '../models/config.js'
import { TRAINING_TOKENS } from '../models/execution-plan.js'
import { headChunksFor } from './logprob-model.js'

/** Part of the activations' memory that the [n, vocabulary] blocks of the head may take ... */
const HEAD_SHARE = 1 / 4
/** ... of which this many are alive at a time. */
const HEAD_BLOCKS = 4

/** Float32 numbers that forward and backward keep per token, about: what limits the size of a micro-batch. */
function activationFloats(config: ModelConfig, length: number): number {
  const { hiddenSize, intermediateSize, numHeads, numKvHeads, headDim, numLayers } = config
  const projections = 3 * headDim * (numHeads + 2 * numKvHeads)
  const layer = 6 * hiddenSize + 5 * intermediateSize + projections + 3 * numHeads * length
  return numLayers * layer + 8 * intermediateSize
}

/** Most tokens of a micro-batch of a call. */
export function maxBatchTokens(
  config: ModelConfig,
  data: readonly Pick<Datum, 'tokens'>[],
  activationBytes: number,
): number {
  const longest = data.reduce((length, { tokens }) => Math.max(length, tokens.length), 1)
  const layers = (1 - HEAD_SHARE) * activationBytes
  const affordable = Math.floor(layers / 4 / activationFloats(config, longest))
  return Math.max(1, Math.min(affordable, TRAINING_TOKENS))
}

/**
 * Into how many pieces of the vocabulary the head is cut for n trained positions: a power of two, so that a few graphs
 * serve micro-batches of all sizes; no piece is empty.
 */
export function headChunkCount(config: ModelConfig, n: number, activationBytes: number): number {
  const block = (HEAD_SHARE * activationBytes) / HEAD_BLOCKS
  const wanted = Math.ceil(Math.log2(headChunksFor(config, n, block)))
  return 2 ** Math.min(wanted, Math.floor(Math.log2(config.vocabSize)))
}
