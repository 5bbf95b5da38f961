/** A request for completions of one prompt. */
export interface SampleRequest {
  /** Prompt ids, int32 [P], P >= 1. */
  readonly prompt: Int32Array
  /** How many completions. Default 1. The prompt is run once for all of them. */
  readonly numSamples?: number
  /** Most new tokens per completion. Must be >= 1. The context window may cut it further. */
  readonly maxTokens: number
  /** Logits are divided by it. Default 1. 0 is greedy: the most probable token, with log-probs reported at temperature 1. */
  readonly temperature?: number
  /** Sample only from the k most probable tokens. Default: all. */
  readonly topK?: number
  /** Sample only from the smallest set whose probability (after top-k) reaches p, 0 < p <= 1. Default 1. */
  readonly topP?: number
  /** Ids that end a completion, and strings that end it once they stand in its decoded text. The stop token is included. */
  readonly stop?: readonly (number | string)[]
  /** Seeds the random streams; completion i of a request has stream (seed, i). Default: drawn from the sampler's own seed. */
  readonly seed?: number
}

/** One completion of N tokens. */
export interface SampledSequence {
  /** Sampled ids, int32 [N], the stop token included. */
  readonly tokens: Int32Array
  /** Log-probs of `tokens` with the temperature applied and before any filter, float32 [N]. */
  readonly logprobs: Float32Array
  /** Probability that top-k/top-p kept at each draw, float32 [N]; 1 without a filter. Log-prob of the draw = logprobs - log(keptMass). */
  readonly keptMass: Float32Array
  /** `stop`: a stop id or string ended it. `length`: maxTokens or the context did. */
  readonly stopReason: 'stop' | 'length'
  /** Number of optimiser steps behind the weights that sampled it. */
  readonly policyVersion: number
}

export interface CallOptions {
  /** Aborts the call: it rejects with the signal's reason and leaves nothing half done. */
  readonly signal?: AbortSignal
}

/** Samples from the weights of one version; where those are no longer there (a live view after a step), its calls reject. */
export interface SamplingClient {
  /** Number of optimiser steps behind these weights. */
  readonly policyVersion: number
  /** Longest prompt + completion, in tokens. */
  readonly contextLength: number
  /**
   * `numSamples` completions, in order.
   * @throws ContextOverflowError when the prompt leaves no room; InvalidInputError; StaleSamplerError on a live view after a step.
   */
  sample(request: SampleRequest, options?: CallOptions): Promise<SampledSequence[]>
  /** Log-prob of each token after the first given all before it, float32 [T-1], at `temperature` (default 1). */
  logprobs(tokens: Int32Array, options?: CallOptions & { readonly temperature?: number }): Promise<Float32Array>
  dispose(): Promise<void>
}
