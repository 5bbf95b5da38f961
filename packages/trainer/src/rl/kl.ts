import type { CallOptions, Datum, SamplingClient } from '@selfplay/engine'
import { settleAll } from '../deadline.js'

/** Sequences of one episode, in order. */
export type EpisodeDatums = readonly Datum[]

/** Log-probs of a datum's targets under another policy at the datum's temperature, float32 [T]; 0 where the weight is 0. */
export async function targetLogprobs(
  policy: SamplingClient,
  datum: Datum,
  options: CallOptions,
): Promise<Float32Array> {
  const { tokens, targets, weights, temperature = 1 } = datum
  const whole = new Int32Array(tokens.length + 1)
  whole.set(tokens)
  whole[tokens.length] = targets[tokens.length - 1]!
  const logprobs = await policy.logprobs(whole, { ...options, temperature })
  return logprobs.map((value, t) => (weights?.[t] === 0 ? 0 : value))
}

/** {@link targetLogprobs} of every sequence of every episode, [episode][sequence]. */
export function referenceLogprobs(
  reference: SamplingClient,
  episodes: readonly EpisodeDatums[],
  options: CallOptions,
): Promise<Float32Array[][]> {
  return settleAll(
    episodes.map((episode) => settleAll(episode.map((datum) => targetLogprobs(reference, datum, options)))),
  )
}

export interface KlPenalty {
  readonly coef: number
  /** Share of the next sampled token's term that counts for this one. */
  readonly discount: number
}

export interface Penalised {
  /** The same sequences with the penalty in their advantages. */
  readonly episodes: Datum[][]
  /** Mean of log p_sampled - log p_ref over the trained tokens: an estimate of KL(policy || reference) per token, in nats. */
  readonly kl: number
}

/**
 * Takes the log-ratio to a reference policy off the advantages of the trained tokens:
 * A_t += coef * (mean of K - K_t), K_t = d_t + discount * K_(t+1), d_t = log p_sampled - log p_ref,
 * where t + 1 is the next trained token of the episode and the mean is over all trained tokens of the call.
 *
 * The mean is one number for the batch, so that it favours no length; with discount 1, -K_t is the return to go of a reward
 * -d_t per token.
 */
export function penaliseKl(
  episodes: readonly EpisodeDatums[],
  references: readonly (readonly Float32Array[])[],
  { coef, discount }: KlPenalty,
): Penalised {
  let sumD = 0
  let sumK = 0
  let tokens = 0
  const terms = episodes.map((episode, e) => {
    let next = 0
    const ofEpisode = episode.map(({ targets }) => new Float64Array(targets.length))
    for (let s = episode.length - 1; s >= 0; s--) {
      const { weights, samplerLogprobs } = episode[s]!
      for (let t = ofEpisode[s]!.length - 1; t >= 0; t--) {
        if (weights![t] === 0) continue
        const d = samplerLogprobs![t]! - references[e]![s]![t]!
        next = d + discount * next
        ofEpisode[s]![t] = next
        sumD += d
        sumK += next
        tokens++
      }
    }
    return ofEpisode
  })
  if (tokens === 0) return { episodes: episodes.map((episode) => [...episode]), kl: 0 }
  const mean = sumK / tokens
  const penalised = episodes.map((episode, e) =>
    episode.map((datum, s) => ({
      ...datum,
      advantages: datum.advantages!.map((value, t) =>
        datum.weights![t] === 0 ? value : value + coef * (mean - terms[e]![s]![t]!),
      ),
    })),
  )
  return { episodes: penalised, kl: sumD / tokens }
}
