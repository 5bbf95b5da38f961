import { createTranscript, type Renderer, type Transcript } from '@selfplay/renderers'
import { namesOf } from '../options.js'
import type { Sampler } from '../sampler.js'
import type { MessagePolicy } from './policy.js'

export interface ModelPolicyOptions {
  readonly renderer: Renderer
  readonly sample: Sampler
  /** Most tokens of a reply. Default: as many as the sampler allows. */
  readonly maxTokens?: number
  /** Whether prompts continue the ids that were sampled (default), or are rendered anew each time. */
  readonly history?: 'sampled' | 'template'
}

const checkNames = namesOf<ModelPolicyOptions>('modelPolicy', 'renderer', 'sample', 'maxTokens', 'history')

/** A model. Replies come with the tokens that they were sampled as, and with how they ended. */
export function modelPolicy(options: ModelPolicyOptions): MessagePolicy {
  checkNames(options)
  const { renderer, sample, maxTokens, history = 'sampled' } = options
  const transcripts = new WeakMap<object, Transcript>()
  return async ({ messages, tools, episode, turn, seed, signal }) => {
    const known = transcripts.get(episode)
    const transcript = known ?? createTranscript(renderer, { history, tools })
    if (!known) transcripts.set(episode, transcript)
    const observation = transcript.prompt(messages)
    const action = await sample({
      prompt: observation,
      stop: renderer.stop,
      turn,
      ...(maxTokens === undefined ? {} : { maxTokens }),
      ...(seed === undefined ? {} : { seed }),
      signal,
    })
    const { message, termination } = transcript.sampled(action.tokens)
    return { message, termination, observation, action }
  }
}
