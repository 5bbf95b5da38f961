import type { ModelConfig } from './config.js'
import { parameterCount } from './weights.js'

/*
 * How a model of a given size is run on a given number of threads. Sizes are numbers of parameters of the decoder alone, without
 * adapters and heads. Nothing here depends on what else the machine does, so that a run and its continuation compute alike.
 */

/**
 * From it on, samplers pack weights that change. Packing anew costs about as much as it saves in 20 steps of 16 rows (measured: 5.7 M
 * parameters 20 ms against 1.6 ms a step, 0.5 B parameters 2 s against 0.1 s a step), but at 0.4 M parameters as much as in 200 steps.
 * Rollouts lie in between.
 */
const PACKED = 1_000_000

/** Below it, a second thread gains a training pass less than a second pass beside it does. */
const SMALL = 2_000_000

/** From it on, several threads are faster than one in a step of a sampler: a shorter one is over before the others are awake. */
const THREADED = 8_000_000

/** Up to it, every lane can hold gradients of its own. */
const LANED = 16_000_000

/** From it on, a run keeps all threads busy, and what it needed is given back after it: taking it again costs little beside the run. */
const LARGE = 64_000_000

const isLargeModel = (config: ModelConfig): boolean => parameterCount(config) >= LARGE

/** Whether a model is so small that its passes are best run side by side, and its sessions take longer to make than to use. */
export const isSmallModel = (config: ModelConfig): boolean => parameterCount(config) < SMALL

/** Whether samplers gain from a packed copy of weights that change. */
export const packsChangingWeights = (config: ModelConfig): boolean => parameterCount(config) >= PACKED

/** Up to so many parameters times tokens, reading a prompt takes about as long as leaving the thread for it: half a millisecond. */
const BRIEF = 25_000_000

/** Whether a prompt of so many tokens is read so fast that it is best done on the calling thread. */
export const readsBriefly = (config: ModelConfig, tokens: number): boolean => parameterCount(config) * tokens <= BRIEF

/** Threads of a sampler's step. */
export const samplingThreads = (config: ModelConfig, threads: number): number =>
  parameterCount(config) < THREADED ? 1 : threads

/**
 * Whether sessions keep the memory of a run for the next one. Those of small models share it, whose runs take little longer than to touch
 * new pages does (measured: training two agents of 0.36 M parameters for an update, again and again with new sessions, 161 ms and 12,600
 * pages, shared 145 ms and 4,000).
 */
export const runArena = (config: ModelConfig): true | 'shared' => (isSmallModel(config) ? 'shared' : true)

/** The same for training sessions. */
export const trainingArena = (config: ModelConfig): true | 'shared' | 'shrink' =>
  isLargeModel(config) ? 'shrink' : runArena(config)

/**
 * How far onnxruntime rewrites training graphs. Ours name the fused operators themselves: passes of small models take no longer as they
 * are, and sessions half the time to make (measured at 0.36 M parameters: 500 tokens 6.6 ms with and without, 322 nodes 18.4 ms and 9.1).
 */
export const trainingOptimisation = (config: ModelConfig): 'all' | 'none' => (isSmallModel(config) ? 'none' : 'all')

/** Most tokens of a training pass: beyond it, activations leave the processor's cache and passes over them slow down. */
export const TRAINING_TOKENS = 1024

/** Whether training sessions plan the memory of a run by that of the last of the same size: the sizes of small models change each time. */
export const plansTrainingMemory = (config: ModelConfig): boolean => !isSmallModel(config)

/** Whether agents with adapters step in shared sessions: the steps of large models keep all threads busy one after the other. */
export const sharesDecoders = isLargeModel

/** Whether decoders give back their packed copies of trained weights for a backward pass; the step after it outdates them anyway. */
export const decodersMakeRoom = (config: ModelConfig, training: 'full' | object): boolean =>
  training === 'full' && isLargeModel(config)

/** How the threads are divided between training passes. */
export interface TrainingThreads {
  /** Whether passes of several agents run side by side. */
  readonly concurrent: boolean
  /** Threads of a pass that is the only one of its agent. */
  readonly threads: number
  /** Micro-batches of a call that run side by side. */
  readonly lanes: number
  /** Threads of each of them. */
  readonly laneThreads: number
}

/**
 * Agents of small models run side by side, each on its share of the threads (measured: two passes of 0.36 M parameters 21 ms one after
 * the other on two threads, 15 ms at once on one thread each), others one after another on all of them.
 *
 * An agent's own micro-batches run side by side in turn, where they can. A pass over a small or medium-sized model is a few hundred
 * short steps, and with threads inside of each, all wait for the slowest at each (measured at hidden 256, 6 layers, two threads: 59 to
 * 71 % of the rate of large matrix products within, 70 to 81 % side by side).
 *
 * @param overlap whether runs can overlap at all.
 */
export function trainingThreads(
  config: ModelConfig,
  { threads, agents, overlap }: { readonly threads: number; readonly agents: number; readonly overlap: boolean },
): TrainingThreads {
  const concurrent = isSmallModel(config)
  const share = concurrent ? Math.max(1, Math.floor(threads / agents)) : threads
  const lanes = overlap && parameterCount(config) <= LANED ? lanesOn(share) : 1
  return { concurrent, threads: share, lanes, laneThreads: Math.floor(share / lanes) }
}

/** Up to four lanes of equally many threads: the number that leaves fewest idle, which is one at most, and of such the largest. */
const lanesOn = (threads: number): number =>
  [4, 3, 2, 1]
    .filter((lanes) => lanes <= threads && (lanes > 1 || threads === 1))
    .reduce((best, lanes) => (threads % lanes < threads % best ? lanes : best))
