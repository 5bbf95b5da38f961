import type { SamplingClient } from '@selfplay/engine'
import { settleAll } from '../deadline.js'
import type { Completion, ShownPrompt } from './types.js'

export type KlEstimator = 'k1' | 'k2' | 'k3'

/**
 * KL(policy || reference) of a sampled completion: the sum over its tokens of an estimator of d = reference - policy log-prob:
 * k1 = -d, k2 = d^2 / 2, k3 = exp(d) - d - 1 (Schulman 2020, "Approximating KL divergence").
 */
export function sequenceKl(policy: ArrayLike<number>, reference: ArrayLike<number>, estimator: KlEstimator): number {
  let sum = 0
  for (let t = 0; t < policy.length; t++) {
    const d = reference[t]! - policy[t]!
    sum += estimator === 'k1' ? -d : estimator === 'k2' ? (d * d) / 2 : Math.expm1(d) - d
  }
  return sum
}

/** Returns with the penalty coef * KL taken off; null stays null. */
export function penalise(
  returns: readonly (number | null)[],
  kls: readonly (number | null)[],
  coef: number,
): (number | null)[] {
  return returns.map((value, k) => (value === null ? null : value - coef * (kls[k] ?? 0)))
}

/** The KL of each completion of one agent at one node, [k]. */
export async function completionKls(
  prompt: ShownPrompt,
  completions: readonly Completion[],
  reference: SamplingClient,
  options: { readonly estimator: KlEstimator; readonly temperature: number; readonly signal: AbortSignal },
): Promise<number[]> {
  return settleAll(
    completions.map(async ({ tokens, logprobs }) => {
      const whole = new Int32Array(prompt.tokens.length + tokens.length)
      whole.set(prompt.tokens)
      whole.set(tokens, prompt.tokens.length)
      const all = await reference.logprobs(whole, { temperature: options.temperature, signal: options.signal })
      return sequenceKl(logprobs, all.subarray(prompt.tokens.length - 1), options.estimator)
    }),
  )
}
