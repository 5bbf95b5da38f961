import { InvalidInputError, type CallOptions, type SampleRequest, type SamplingClient } from '@selfplay/engine'
import { textOf, type Message } from '@selfplay/renderers'
import type { LoadedAgent } from './agents.js'

/** How {@link complete} samples; what is not named here is as in `SampleRequest`. */
export type CompleteOptions = CallOptions &
  Partial<Pick<SampleRequest, 'numSamples' | 'maxTokens' | 'temperature' | 'topK' | 'topP' | 'stop' | 'seed'>> & {
    /** Sample from a frozen snapshot instead of the weights as they are now. */
    readonly sampler?: SamplingClient
  }

/**
 * Answers of an agent, as text.
 *
 * @param prompt plain text, as it is; or messages, for agents that were loaded with a `renderer`.
 * @param options `numSamples` answers (default 1) of at most `maxTokens` tokens (default 128), at `temperature` 1.
 * @returns one text per answer, without its end token.
 * @throws InvalidInputError for messages without a renderer; otherwise as `SamplingClient.sample`.
 */
export async function complete(
  agent: LoadedAgent,
  prompt: string | readonly Message[],
  { sampler, signal, ...options }: CompleteOptions = {},
): Promise<string[]> {
  const client = sampler ?? (await agent.sampler())
  const { tokenizer, renderer } = agent
  const call = signal ? { signal } : {}
  if (typeof prompt === 'string') {
    const request = { maxTokens: 128, ...options, prompt: Int32Array.from(tokenizer.encode(prompt)) }
    const sequences = await client.sample(request, call)
    const ends = new Set<number>(agent.info.eosTokenIds)
    return sequences.map(({ tokens }) => tokenizer.decode([...tokens].filter((id) => !ends.has(id))))
  }
  if (!renderer) {
    throw new InvalidInputError(
      `complete: messages need a renderer, and this agent has none: load it with { renderer: 'chatml' }, or give plain text`,
    )
  }
  const request = { maxTokens: 128, stop: renderer.stop, ...options, prompt: renderer.generationPrompt(prompt) }
  const sequences = await client.sample(request, call)
  return sequences.map(({ tokens }) => textOf(renderer.parse(tokens).message))
}
