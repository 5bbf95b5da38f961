import type { Renderer } from '@selfplay/renderers'
import { ScriptExhaustedError } from '../errors.js'
import type { Sampler, SamplerRequest } from '../sampler.js'

/** What a mock model writes. `end` is how it stops: with the format's stop (default), or with nothing at all. */
export interface ScriptedSample {
  readonly text: string
  readonly end?: 'stop' | 'none'
}

export type Script =
  | readonly (string | ScriptedSample)[]
  | ((request: SamplerRequest, prompt: string) => string | ScriptedSample | Promise<string | ScriptedSample>)

/**
 * A sampler without a model: encodes replies of a script and puts the format's stop after them. Log-probs are -1 for every token.
 * A reply longer than `maxTokens` is cut off.
 *
 * @param script the reply of each turn, or a function of the request and the decoded prompt
 */
export function scriptedSampler(renderer: Renderer, script: Script): Sampler {
  const { tokenizer, stop } = renderer
  return async (request) => {
    const scripted =
      typeof script === 'function' ? await script(request, tokenizer.decode(request.prompt)) : script[request.turn ?? 0]
    if (scripted === undefined)
      throw new ScriptExhaustedError(
        `the script has ${script.length} replies and turn ${request.turn} asks for another`,
      )
    const { text, end = 'stop' } = typeof scripted === 'string' ? { text: scripted } : scripted
    const mark = end === 'none' ? undefined : stop[0]
    const ids = typeof mark === 'string' ? tokenizer.encode(text + mark) : tokenizer.encode(text)
    if (typeof mark === 'number') ids.push(mark)
    const cutOff = request.maxTokens !== undefined && ids.length > request.maxTokens
    const tokens = Int32Array.from(cutOff ? ids.slice(0, request.maxTokens) : ids)
    return { tokens, logprobs: new Float32Array(tokens.length).fill(-1), stopReason: cutOff ? 'length' : 'stop' }
  }
}
