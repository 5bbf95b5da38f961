import { getRenderer, system, user } from '@selfplay/renderers'
import { describe, expect, it } from 'vitest'
import { playEnv } from './play-env.js'
import { ProblemEnv, problemGroup, type Problem, type ProblemEnvOptions } from './problem-env.js'
import { scripted } from './policies/scripted.js'
import { runGroup } from './rollout/run-group.js'
import { runRollout } from './rollout/run-rollout.js'
import { EnvFromMessageEnv } from './env-from-message-env.js'
import { byteTokenizer, scriptedSampler } from './testing/index.js'

const problem: Problem = {
  id: 'sum',
  question: '2 + 2?',
  reference: '4',
  checkAnswer: (text) => text.includes('4'),
  checkFormat: (text) => text.startsWith('Answer:'),
}
const renderer = getRenderer('chatml', byteTokenizer(), { defaultSystem: null })

describe('ProblemEnv', () => {
  it.each([
    ['Answer: 4', 1, 1, 1],
    ['Answer: 5', 0, 1, 0],
    ['4', 0.9, 0, 1],
    ['5', -0.1, 0, 0],
  ])('%s is worth %d', async (reply, reward, format, correct) => {
    const episode = await playEnv(new ProblemEnv(problem), scripted([reply]))
    expect(episode.reward).toBeCloseTo(reward, 12)
    expect(episode.turns[0]).toMatchObject({ metrics: { format, correct }, logs: { reference: '4' } })
  })

  it('gives no credit for form to an answer that ends with the end of the sequence, unless allowed', async () => {
    const eos = renderer.tokenizer.tokenId('<|endoftext|>')!
    const tokens = Int32Array.from([...renderer.tokenizer.encode('Answer: 4'), eos])
    const reward = async (options: ProblemEnvOptions) => {
      const env = new EnvFromMessageEnv({ renderer, messageEnv: new ProblemEnv(problem, options) })
      const { transitions } = await runRollout({ env, sample: () => ({ tokens, stopReason: 'stop' }) })
      return transitions[0]!.reward
    }
    expect(await reward({})).toBeCloseTo(0.9, 12)
    expect(await reward({ requireStopForFormat: false })).toBe(1)
    expect(await reward({ formatCoefficient: 0.5 })).toBe(0.5)
  })

  it('puts its prefix before the question', () => {
    const env = new ProblemEnv(problem, { conversationPrefix: [system('Think.')] })
    expect(env.initialObservation()).toEqual([system('Think.'), user('2 + 2?')])
    expect(env.exampleId).toBe('sum')
  })

  it('refuses an unknown option', () => {
    expect(() => new ProblemEnv(problem, { formatCoef: 1 } as ProblemEnvOptions)).toThrow(/"formatCoefficient"/)
  })

  it('groups answers to one and the same problem', async () => {
    const group = await runGroup(problemGroup(problem, { size: 3, adapter: { renderer } }), {
      sample: scriptedSampler(renderer, (request) => (request.seed! % 2 ? 'Answer: 4' : 'Answer: 5')),
      seed: 2,
    })
    const prompts = group.members.map((m) => m.trajectory.transitions[0]!.observation.join())
    expect(new Set(prompts).size).toBe(1)
    expect(group).toMatchObject({ tags: ['problems'], metricReducers: { correct: 'rate', format: 'rate' } })
  })
})
