import type { Datum } from './datum.js'
import type { Loss } from './loss.js'
import type { CallOptions, SamplingClient } from './sampling.js'

export interface ForwardResult {
  /** The normalised loss of the call. */
  readonly loss: number
  /** Log-probs of the targets at each datum's temperature, float32 [T] per datum; 0 where the weight is 0. */
  readonly logprobs: Float32Array[]
  /** Numbers about the call, e.g. `entropy` (nats per trained token), `tokens` (trained ones), `ratio_max`. */
  readonly metrics: Record<string, number>
}

/** AdamW (Loshchilov & Hutter 2019) with global-norm clipping. */
export interface OptimStepOptions {
  /** Must be >= 0. `learningRate / (1 - beta1)` must fit into float32. */
  readonly learningRate: number
  /** Default 0.9. */
  readonly beta1?: number
  /** Default 0.95. */
  readonly beta2?: number
  /** A normal number of float32, from 1.2e-38. Default 1e-8. */
  readonly epsilon?: number
  /** Decoupled, on all parameters. `learningRate * weightDecay`, the share of a weight that a step takes away, is at most 1. Default 0. */
  readonly weightDecay?: number
  /** Gradients are scaled down to this global norm; null switches it off. Default 1. */
  readonly maxGradNorm?: number | null
}

export interface OptimStepResult {
  /** Global L2 norm of the accumulated gradient before clipping. */
  readonly gradNorm: number
  /** True when there was nothing to apply (no gradient since the last step): the weights and the step count are unchanged. */
  readonly skipped: boolean
}

/** What a client trains. */
export interface ModelInfo {
  /** Where the weights came from, as the user named it. */
  readonly source: string
  /** Architecture name, e.g. `qwen2`. */
  readonly architecture: string
  readonly vocabSize: number
  readonly contextLength: number
  /** Ids that end a generation according to the model. */
  readonly eosTokenIds: readonly number[]
  /** All parameters, and those that are trained. */
  readonly parameters: { readonly total: number; readonly trained: number }
  /** `full`, or the rank of the adapter. */
  readonly training: 'full' | { readonly loraRank: number }
  /**
   * Whether several clients of such a model are best called at the same time, since one alone leaves a processor idle; else one after
   * another takes least memory and no more time. Default false.
   */
  readonly sideBySide?: boolean
}

/**
 * A training core: trains one policy and makes samplers of it. Calls on one client run one after another, in call order.
 */
export interface TrainingClient {
  readonly info: ModelInfo
  /** Number of optimiser steps so far. */
  readonly step: number
  /** Loss and log-probs without gradients. */
  forward(data: readonly Datum[], loss: Loss, options?: CallOptions): Promise<ForwardResult>
  /**
   * Adds the gradients of the loss to the accumulated ones. An aborted or failed call leaves those as they were.
   * @throws NonFiniteError naming the datum whose loss is NaN or infinite; InvalidInputError.
   */
  forwardBackward(data: readonly Datum[], loss: Loss, options?: CallOptions): Promise<ForwardResult>
  /**
   * Applies the accumulated gradients once and zeroes them.
   * @throws NonFiniteError when the gradient norm is not finite: weights and optimiser state unchanged, gradients zeroed;
   *   InvalidInputError for options that would make any weights infinite.
   */
  optimStep(options: OptimStepOptions, call?: CallOptions): Promise<OptimStepResult>
  /**
   * Says that `forwardBackward` will be called with this loss: a core may get ready (compile a graph) while something else goes on, for
   * instance while a first batch is sampled. Never needed, returns at once, and says nothing where it fails: the call itself will.
   */
  prepare?(loss: Loss): void
  /** A live view without a copy; after the next `optimStep` its calls reject with StaleSamplerError. */
  sampler(options?: CallOptions): Promise<SamplingClient>
  /** An independent frozen copy of the policy as it is now. */
  snapshot(options?: CallOptions): Promise<SamplingClient>
  /**
   * Weights, optimiser state and step count to a folder, whole or not at all. What stands there is replaced if it is an empty folder,
   * or one with nothing but what a client wrote (a state or a model).
   * @throws CheckpointError when anything else stands there, such as a file or a folder with files of others: it is left alone.
   */
  saveState(directory: string, options?: CallOptions): Promise<void>
  /** What `saveState` wrote. @throws CheckpointError when anything is missing, damaged or of another model: nothing changes. */
  loadState(directory: string, options?: CallOptions): Promise<void>
  /**
   * A Hugging Face folder of the policy with its tokenizer files, whole or not at all. Replaces what `saveState` would, and nothing else.
   * @throws CheckpointError as `saveState` does; InvalidInputError for options that it cannot take.
   */
  exportModel(directory: string, options?: CallOptions & ExportOptions): Promise<void>
  dispose(): Promise<void>
}

export interface ExportOptions {
  /** Default `float32`. */
  readonly dtype?: 'float32' | 'float16'
  /** For adapters: `adapter` writes a PEFT folder, `merged` a whole model. Default `merged`. */
  readonly format?: 'adapter' | 'merged'
}
