import { assistant, user, type Renderer } from '@selfplay/renderers'
import { describe, expect, it } from 'vitest'
import { EnvFromMessageEnv } from './env-from-message-env.js'
import { playEnv } from './play-env.js'
import { runRollout } from './rollout/run-rollout.js'
import { byteTokenizer, mockMessageEnv } from './testing/index.js'
import type { Action } from './types.js'

const TURNS = 200
const longEnv = () =>
  mockMessageEnv((_, { turn }) => ({ reward: 0, episodeDone: turn + 1 === TURNS, nextMessages: [user('next')] }))

/** A renderer that renders nothing, so that only the framework is measured. */
const emptyRenderer: Renderer = {
  name: 'empty',
  tokenizer: byteTokenizer(),
  stop: [0],
  markerIds: new Set(),
  extendsHistory: true,
  generationPrompt: () => Int32Array.of(1),
  bridge: (transcript) => Int32Array.from(transcript).slice(0, 1),
  parse: () => ({ message: assistant('reply'), termination: 'stop', isClean: true }),
  parseStream: () => {
    throw new Error('not used')
  },
  normalise: (message) => message,
  supervisedExample: () => ({ tokens: new Int32Array(0), weights: new Float32Array(0) }),
  supervisedExamples: () => [],
}

/** Microseconds a turn: the best of several runs, which other processes disturb least. */
async function perTurn(run: () => Promise<unknown>): Promise<number> {
  let best = Infinity
  for (let k = 0; k < 30; k++) {
    const start = performance.now()
    await run()
    best = Math.min(best, ((performance.now() - start) * 1000) / TURNS)
  }
  return best
}

describe('what the framework costs a turn', () => {
  it('is under 50 microseconds with a scripted policy', async () => {
    expect(await perTurn(() => playEnv(longEnv(), () => 'reply'))).toBeLessThan(50)
  })

  it('is under 50 microseconds in a rollout over the adapter, tokenising left out', async () => {
    const action: Action = { tokens: Int32Array.of(0), logprobs: Float32Array.of(-1), stopReason: 'stop' }
    const env = () => new EnvFromMessageEnv({ renderer: emptyRenderer, messageEnv: longEnv() })
    expect(
      await perTurn(() => runRollout({ env: env(), sample: () => Promise.resolve(action), seed: 1 })),
    ).toBeLessThan(50)
  })
})
