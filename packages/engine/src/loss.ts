/**
 * How the per-token losses of a batch become one number.
 *
 * With w the weights and l the per-token losses (weight included):
 * - `sum`: sum of l over all tokens of the call.
 * - `tokenMean`: sum of l / number of tokens with w != 0, over the whole call.
 * - `sequenceMean`: mean over sequences of (sum of l / number of tokens with w != 0 in that sequence); sequences without one are left out.
 * - `{ fixed: n }`: sum of l / n.
 */
export type Normalisation = 'sum' | 'tokenMean' | 'sequenceMean' | { readonly fixed: number }

interface Common {
  /** Default `'sum'`. */
  readonly normalise?: Normalisation
}

/** -w * logp. */
export interface CrossEntropy extends Common {
  readonly name: 'cross_entropy'
}
/** -w * r * A with r = exp(logp - samplerLogprob). */
export interface ImportanceSampling extends Common {
  readonly name: 'importance_sampling'
}
/** -w * min(r * A, clip(r, low, high) * A). Schulman et al. 2017, equation 7. */
export interface Ppo extends Common {
  readonly name: 'ppo'
  /** Lower ratio bound. Default 0.8. */
  readonly low?: number
  /** Upper ratio bound. Default 1.2. */
  readonly high?: number
}
/** -w * stopGradient(clip(r, low, high)) * A * logp. MiniMax-M1 2025, equation 4. */
export interface Cispo extends Common {
  readonly name: 'cispo'
  /** Lower ratio bound. Default 0. */
  readonly low?: number
  /** Upper ratio bound. Default 4. */
  readonly high?: number
}
/** -w * (A * logp - beta / 2 * (logp - samplerLogprob)^2). Direct reward optimisation, Richemond et al. 2024. */
export interface Dro extends Common {
  readonly name: 'dro'
  /** Strength of the quadratic penalty. Default 0.05. */
  readonly beta?: number
}
/**
 * PPO's clip on one ratio per sequence: s = exp(mean over weighted tokens of (logp - samplerLogprob));
 * per token -w * min(s * A, clip(s, 1 - clip, 1 + clip) * A). Zheng et al. 2025 (GSPO), equation 5.
 */
export interface Gspo extends Common {
  readonly name: 'gspo'
  /** Half-width of the clip around 1. Default 3e-4. */
  readonly clip?: number
}
/**
 * A loss of one's own over log-probs. Costs one more forward pass.
 *
 * `compute` receives the log-probs of each datum, float32 [T] (0 where the weight is 0), and returns the loss and its
 * derivative with respect to each log-prob (same shapes; ignored where the weight is 0). `normalise` is not applied.
 */
export interface CustomLoss {
  readonly name: 'custom'
  readonly compute: (logprobs: readonly Float32Array[]) => {
    readonly loss: number
    readonly gradient: readonly Float32Array[]
    readonly metrics?: Readonly<Record<string, number>>
  }
}

/** Every loss is a sum over tokens, made one number by its `normalise`. r is the ratio exp(logp - samplerLogprob). */
export type Loss = CrossEntropy | ImportanceSampling | Ppo | Cispo | Dro | Gspo | CustomLoss

export type LossName = Loss['name']
