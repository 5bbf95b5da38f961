import { Limiter, neverAborted } from '@selfplay/env'
import type { Renderer } from '@selfplay/renderers'
import { z } from 'zod'
import { JudgeError } from '../errors.js'
import { callable, having, parseOptions, show } from '../options.js'
import { cached } from './cached.js'
import { messageFrame, type ComparisonFrame } from './frame.js'
import { labelChoice } from './label-tokens.js'
import { lengthControlled, lengthControlSchema, type LengthControl } from './length-controlled.js'
import type { Comparison, Preference, PreferenceModel } from './preference.js'
import { symmetrised } from './symmetrised.js'

/** The part of a sampling client that a judge uses. */
export interface TokenScorer {
  /** Log-prob of each token after the first given all before it, float32 [T-1]. */
  logprobs(tokens: Int32Array, options?: { readonly signal?: AbortSignal }): Promise<Float32Array>
}

export interface ChatPreferenceOptions {
  /** The judge's chat format. */
  readonly renderer: Renderer
  /** The judge. */
  readonly scorer: TokenScorer
  /** How comparisons are written. Default {@link messageFrame}. */
  readonly frame?: ComparisonFrame
  /** Judge each comparison in both orders and take the mean. Default true. */
  readonly symmetrise?: boolean
  /** Most calls of `scorer.logprobs` at once. Default 8. */
  readonly concurrency?: number
  /** Comparisons (each order is one) whose judgement is kept. 0 keeps none. Default 4096. */
  readonly cacheSize?: number
  /** Takes out a preference for longer completions. Default null: none. */
  readonly lengthControl?: LengthControl | null
}

const schema = z.strictObject({
  renderer: having<Renderer>('generationPrompt', 'supervisedExample'),
  scorer: having<TokenScorer>('logprobs'),
  frame: callable<ComparisonFrame>().default(() => messageFrame),
  symmetrise: z.boolean().default(true),
  concurrency: z.int().positive().default(8),
  cacheSize: z.int().nonnegative().default(4096),
  lengthControl: lengthControlSchema.nullable().default(null),
})

/**
 * A judge made of a chat model: it reads the comparison and its preference is softmax over the log-probs of the answers A,
 * B and Tie. Nothing is sampled, so a judgement has no noise, and one forward pass per label and order is all it takes.
 *
 * `compare` throws JudgeError when the scorer's log-probs are none, whatever the renderer and the scorer throw, and the
 * signal's reason when aborted.
 *
 * @throws RewardOptionsError
 */
export function chatPreferenceModel(options: ChatPreferenceOptions): PreferenceModel {
  const { renderer, scorer, frame, symmetrise, concurrency, cacheSize, lengthControl } = parseOptions(
    schema,
    options,
    'chatPreferenceModel',
  )
  const limiter = new Limiter(concurrency)
  let model: PreferenceModel = {
    async compare(comparison: Comparison, { signal = neverAborted } = {}): Promise<Preference> {
      const { prompt, labels } = labelChoice(frame(comparison), renderer)
      const logprobs = await Promise.all(
        labels.map((label) =>
          limiter.run(async () => {
            const scored = await scorer.logprobs(Int32Array.from([...prompt, label]), { signal })
            return checkLogprob(scored, prompt.length)
          }, signal),
        ),
      )
      return preferenceOf(logprobs)
    },
  }
  if (cacheSize > 0) model = cached(model, { maxEntries: cacheSize })
  if (symmetrise) model = symmetrised(model)
  return lengthControl ? lengthControlled(model, lengthControl) : model
}

function checkLogprob(scored: Float32Array, length: number): number {
  const last = scored[length - 1]
  if (scored.length === length && last !== undefined && last <= 1e-3) return last
  throw new JudgeError(
    `the scorer gave ${scored.length} log-probs ending in ${show(last)} for ${length + 1} tokens: expected ${length}, none above 0`,
    { expected: length, got: scored.length, last },
  )
}

/** Softmax over the three labels; a label that is impossible has probability 0. */
function preferenceOf(logprobs: readonly number[]): Preference {
  const top = Math.max(...logprobs)
  if (top === -Infinity)
    throw new JudgeError('the judge holds A, B and Tie all for impossible: it answers something else, check the frame')
  const shares = logprobs.map((logprob) => Math.exp(logprob - top))
  const total = shares.reduce((sum, share) => sum + share, 0)
  const [a, b, tie] = shares.map((share) => share / total) as [number, number, number]
  return { a, b, tie, labelMass: Math.min(1, Math.exp(top) * total) }
}
