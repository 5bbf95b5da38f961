import type { Datum } from '@selfplay/engine'
import type { ModelConfig } from '../models/config.js'
import { parameterCount } from '../models/weights.js'
import { headChunksFor } from './logprob-model.js'

/** Most tokens of a micro-batch: beyond it, activations leave the processor's cache and passes over them slow down. */
const CACHED_TOKENS = 1024

/** Part of the activations' memory that the [n, vocabulary] blocks of the head may take ... */
const HEAD_SHARE = 1 / 4
/** ... of which this many are alive at a time. */
const HEAD_BLOCKS = 4

/** From this many parameters on, what a run needed is given back after it: taking it again costs little beside the run. */
const LARGE_MODEL = 64e6

/** Up to this many parameters, every lane can hold gradients of its own. */
const LANED_MODEL = 16e6
/** Most lanes. */
const MAX_LANES = 4

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
  return Math.max(1, Math.min(affordable, CACHED_TOKENS))
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

/** The pieces of the head, where they are one for micro-batches of every size; undefined where it depends on the size. */
export function expectedHeadChunks(config: ModelConfig, activationBytes: number): number | undefined {
  return headChunkCount(config, CACHED_TOKENS, activationBytes) === 1 ? 1 : undefined
}

/**
 * How many micro-batches of a call run side by side, the threads divided between them. A pass over a small or
 * medium-sized model is a few hundred short steps, and with threads inside of each, all wait for the slowest at each
 * (measured at hidden 256, 6 layers, two threads: 59 to 71 % of the rate of large matrix products within, 70 to 81 % side by side).
 */
export function trainingLanes(config: ModelConfig, threads: number): number {
  return parameterCount(config) <= LANED_MODEL ? Math.min(threads, MAX_LANES) : 1
}

/** Whether sessions keep the memory of a run for the next one. */
export function trainingArena(config: ModelConfig): true | 'shrink' {
  return parameterCount(config) >= LARGE_MODEL ? 'shrink' : true
}

/** Whether agents with adapters step in shared sessions: the steps of large models keep all threads busy one after the other. */
export function sharesDecoders(config: ModelConfig): boolean {
  return parameterCount(config) >= LARGE_MODEL
}

/** Whether decoders give back their packed copies of trained weights for a backward pass; the step after it outdates them anyway. */
export function decodersMakeRoom(config: ModelConfig, training: 'full' | object): boolean {
  return training === 'full' && parameterCount(config) >= LARGE_MODEL
}
