import type { Env, Trajectory } from '@selfplay/env'
import { getRenderer, type Message, type Renderer } from '@selfplay/renderers'
import { byteTokenizer } from '@selfplay/renderers/testing'
import type { TokenScorer } from '../src/index.js'

const CONTROL: Readonly<Record<string, readonly string[]>> = {
  chatml: ['<|im_start|>', '<|im_end|>', '<|endoftext|>'],
  qwen3_disable_thinking: [
    '<|im_start|>',
    '<|im_end|>',
    '<|endoftext|>',
    '<think>',
    '</think>',
    '<tool_call>',
    '</tool_call>',
    '<tool_response>',
    '</tool_response>',
  ],
  role_colon: ['<|endoftext|>'],
}

/** A renderer over bytes. */
export const rendererOf = (name: 'chatml' | 'qwen3_disable_thinking' | 'role_colon' = 'chatml'): Renderer =>
  getRenderer(name, byteTokenizer({ control: CONTROL[name]!, eos: '<|endoftext|>' }))

export const said = (content: string): Message[] => [{ role: 'assistant', content }]
export const asked = (content: string): Message[] => [{ role: 'user', content }]

/** The text under a heading of the comparison that the ids hold. */
function partUnder(text: string, heading: string, next: string): string {
  const start = text.indexOf(`==== ${heading} ====`)
  return text.slice(start, text.indexOf(`==== ${next} ====`, start))
}

/**
 * A judge without a model: its log-probs are a function of the two texts as it reads them. `asks` counts the calls and holds
 * the most that ran at once.
 */
export function scriptedScorer(
  renderer: Renderer,
  judge: (a: string, b: string) => { readonly a: number; readonly b: number; readonly tie: number },
) {
  const asks = { calls: 0, running: 0, most: 0 }
  const scorer: TokenScorer = {
    async logprobs(tokens) {
      asks.calls++
      asks.most = Math.max(asks.most, ++asks.running)
      await new Promise((resolve) => setTimeout(resolve, 1))
      asks.running--
      const text = renderer.tokenizer.decode([...tokens])
      const label = renderer.tokenizer.decode([tokens.at(-1)!]).trim()
      const judged = judge(
        partUnder(text, 'Completion A', 'Completion B'),
        partUnder(text, 'Completion B', 'Preference'),
      )
      const probability = label === 'A' ? judged.a : label === 'B' ? judged.b : judged.tie
      const logprobs = new Float32Array(tokens.length - 1).fill(-1)
      logprobs[logprobs.length - 1] = Math.log(probability)
      return logprobs
    },
  }
  return { scorer, asks }
}

/** A finished episode in which these replies were sampled. `malformed` ones lack the format's stop. */
export function trajectoryOf(
  renderer: Renderer,
  prompt: readonly Message[],
  replies: readonly (string | { readonly malformed: string })[],
): Trajectory {
  const observation = renderer.generationPrompt(prompt)
  return {
    transitions: replies.map((reply, k) => {
      const whole = renderer
        .supervisedExample([...prompt, ...said(typeof reply === 'string' ? reply : reply.malformed)])
        .tokens.subarray(observation.length)
      const tokens = typeof reply === 'string' ? whole : whole.subarray(0, whole.length - 1)
      return {
        observation,
        action: { tokens, stopReason: typeof reply === 'string' ? 'stop' : 'length' },
        reward: 0,
        episodeDone: k === replies.length - 1,
        metrics: {},
        logs: {},
      }
    }),
    finalObservation: new Int32Array(),
    stopReason: 'completed',
  }
}

export const noEnv = {} as Env
