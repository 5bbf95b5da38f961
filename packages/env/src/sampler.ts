import { z } from 'zod'
import { PromptOverflowError, EnvInputError } from './errors.js'
import { parseOptions } from './options.js'
import type { Action, StopCondition } from './types.js'

export interface SamplerRequest {
  /** Prompt ids, int32 [P]. */
  readonly prompt: Int32Array
  readonly stop: StopCondition
  /** Most tokens to sample, at least 1. Absent when nothing limits them. */
  readonly maxTokens?: number
  /** The same seed and prompt give the same tokens. Absent in rollouts that were given no seed. */
  readonly seed?: number
  /** Turns of the episode before this one, where the caller counts them. */
  readonly turn?: number
  readonly signal: AbortSignal
}

/** Continues a prompt by one sample. This is all that a rollout wants of a model. */
export type Sampler = (request: SamplerRequest) => Action | Promise<Action>

/** The part of a training core's sampling client that is used here. */
export interface SamplingClientLike {
  readonly contextLength?: number
  sample(
    request: {
      readonly prompt: Int32Array
      readonly maxTokens: number
      readonly stop: StopCondition
      readonly seed?: number
      readonly temperature?: number
      readonly topK?: number
      readonly topP?: number
    },
    options: { readonly signal: AbortSignal },
  ): Promise<readonly Action[]>
}

const optionsSchema = z.strictObject({
  temperature: z.number().min(0).optional(),
  topK: z.int().positive().optional(),
  topP: z.number().positive().max(1).optional(),
  maxTokens: z.int().positive().optional(),
})
/** How to sample. What is left out is the client's own default; `maxTokens` caps every sample beside all other caps. */
export type SamplerOptions = z.input<typeof optionsSchema>

/**
 * Samples with a client of a training core. The cap of a sample is the least of the request's, `maxTokens`, and the room
 * that the context leaves.
 *
 * The sampler throws PromptOverflowError when the prompt fills the context, and EnvInputError when nothing at all caps
 * a sample.
 */
export function clientSampler(client: SamplingClientLike, options: SamplerOptions = {}): Sampler {
  const { maxTokens: own, ...given } = parseOptions(optionsSchema, options, 'clientSampler')
  const { temperature, topK, topP } = given
  return async ({ prompt, stop, maxTokens, seed, signal }) => {
    const room = client.contextLength === undefined ? Infinity : client.contextLength - prompt.length
    if (room < 1)
      throw new PromptOverflowError(
        `the prompt has ${prompt.length} tokens and the context ${client.contextLength}: no room for an answer`,
        { prompt: prompt.length, contextLength: client.contextLength },
      )
    const cap = Math.min(maxTokens ?? Infinity, own ?? Infinity, room)
    if (cap === Infinity)
      throw new EnvInputError(
        'nothing limits the length of a sample: set maxGenerationTokens on the env, limits.maxTurnTokens, or maxTokens here',
      )
    const sequences = await client.sample(
      {
        prompt,
        stop,
        maxTokens: cap,
        ...(seed === undefined ? {} : { seed }),
        ...(temperature === undefined ? {} : { temperature }),
        ...(topK === undefined ? {} : { topK }),
        ...(topP === undefined ? {} : { topP }),
      },
      { signal },
    )
    const [sequence] = sequences
    if (!sequence || sequences.length !== 1)
      throw new EnvInputError(`the sampling client was asked for 1 sample and gave ${sequences.length}`)
    return sequence
  }
}
