import fc from 'fast-check'
import { getRenderer, system, user } from '@selfplay/renderers'
import { expect, it } from 'vitest'
import { EnvFromMessageEnv } from './env-from-message-env.js'
import type { MessageStepResult } from './message-env.js'
import { runRollout } from './rollout/run-rollout.js'
import { byteTokenizer, mockMessageEnv, scriptedSampler } from './testing/index.js'

const said = fc.string({ unit: 'binary', maxLength: 12 })
const turn = fc.record({
  reply: fc.oneof(
    said,
    said.map((text) => `<think>\n${text}\n</think>\n\n${text}`),
  ),
  next: fc.array(said, { minLength: 1, maxLength: 3 }),
  replaces: fc.boolean(),
})

it.each(['chatml', 'qwen3', 'qwen3_instruct'])(
  '%s: prompt k+1 starts with prompt k and sample k while the conversation grows; all else is a counted break',
  async (name) => {
    const renderer = getRenderer(name, byteTokenizer())
    await fc.assert(
      fc.asyncProperty(fc.array(turn, { minLength: 2, maxLength: 5 }), async (turns) => {
        const step = (k: number): MessageStepResult => ({
          reward: 0,
          episodeDone: k === turns.length - 1,
          nextMessages: turns[k]!.next.map((text) => user(text)),
          ...(turns[k]!.replaces ? { replaceTranscript: [system('anew'), user(`${k}`)] } : {}),
        })
        const env = new EnvFromMessageEnv({ renderer, messageEnv: mockMessageEnv((_, context) => step(context.turn)) })
        const sample = scriptedSampler(
          renderer,
          turns.map(({ reply }) => reply),
        )
        const { transitions } = await runRollout({ env, sample })
        expect(transitions).toHaveLength(turns.length)
        const broken = transitions.slice(1).flatMap(({ observation }, k) => {
          const before = transitions[k]!
          const prefix = [...before.observation, ...before.action.tokens]
          return prefix.every((id, at) => observation[at] === id) ? [] : [k + 1]
        })
        const counted = transitions.reduce((sum, { metrics }) => sum + (metrics['prefix_breaks'] ?? 0), 0)
        expect(broken).toEqual(env.breaks.map((one) => one.turn))
        expect(broken).toEqual(turns.slice(0, -1).flatMap(({ replaces }, k) => (replaces ? [k + 1] : [])))
        expect(counted).toBe(broken.length)
      }),
      { numRuns: 40, seed: 1 },
    )
  },
)
