import { getRenderer, user } from '@selfplay/renderers'
import { describe, expect, it } from 'vitest'
import { EnvFromMessageEnv } from '../env-from-message-env.js'
import { PromptOverflowError } from '../errors.js'
import type { MessageEnv } from '../message-env.js'
import { clientSampler, type Sampler, type SamplerRequest, type SamplingClientLike } from '../sampler.js'
import { byteTokenizer, hang, mockMessageEnv, scriptedSampler } from '../testing/index.js'
import { returnsToGo, sampledTokens, totalReward, type Action, type Env, type StepResult } from '../types.js'
import type { RolloutLimits } from './limits.js'
import { runRollout } from './run-rollout.js'

const renderer = getRenderer('chatml', byteTokenizer(), { defaultSystem: null })
const onward = (reward = 1): MessageEnv =>
  mockMessageEnv(() => ({ reward, episodeDone: false, nextMessages: [user('more')] }))
const adapter = (messageEnv: MessageEnv, maxGenerationTokens: number | null = null) =>
  new EnvFromMessageEnv({ renderer, messageEnv, maxGenerationTokens })

/** An environment without text: prompt k has 10 + k tokens, and it is done after `turns` steps. */
function countingEnv(turns: number, rewards: readonly number[] = []): Env {
  let turn = 0
  const observation = () => ({ tokens: new Int32Array(10 + turn), stop: [0] })
  return {
    initialObservation: observation,
    step(): StepResult {
      turn++
      const episodeDone = turn >= turns
      return { reward: rewards[turn - 1] ?? 1, episodeDone, nextObservation: observation(), metrics: { step: 1 } }
    },
  }
}

/** Samples as many tokens as it may, at most `size`. */
function sampler(size: number, requests: SamplerRequest[] = []): Sampler {
  return (request): Action => {
    requests.push(request)
    const length = Math.min(size, request.maxTokens ?? Infinity)
    return { tokens: new Int32Array(length), logprobs: new Float32Array(length), stopReason: 'stop' }
  }
}

describe('the loop', () => {
  it('without limits is the plain loop', async () => {
    const env = countingEnv(3, [1, 0, 2])
    const plain = []
    const reference = countingEnv(3, [1, 0, 2])
    let observation = await reference.initialObservation({ signal: new AbortController().signal })
    for (let done = false; !done;) {
      if (!('tokens' in observation)) throw new Error('overflow')
      const action = { tokens: new Int32Array(4), logprobs: new Float32Array(4), stopReason: 'stop' as const }
      const result = await reference.step(action, { signal: new AbortController().signal })
      const { reward, episodeDone, metrics } = result
      plain.push({ observation: observation.tokens, action, reward, episodeDone, metrics, logs: {} })
      observation = result.nextObservation
      done = episodeDone
    }
    const trajectory = await runRollout({ env, sample: sampler(4) })
    expect(trajectory).toEqual({ transitions: plain, finalObservation: new Int32Array(13), stopReason: null })
  })

  it('check 26: rewards [1, 0, 2] give each turn its return', async () => {
    const trajectory = await runRollout({ env: countingEnv(3, [1, 0, 2]), sample: sampler(1) })
    expect(totalReward(trajectory)).toBe(3)
    expect(returnsToGo(trajectory)).toEqual([3, 2, 2])
    expect(returnsToGo(trajectory, 0.5)).toEqual([1.5, 1, 2])
    expect(returnsToGo(trajectory, 0)).toEqual([1, 0, 2])
  })

  it('gives each turn a seed of its own, the same in every run', async () => {
    const seeds = async (seed: number) => {
      const requests: SamplerRequest[] = []
      await runRollout({ env: countingEnv(3), sample: sampler(1, requests), seed })
      return requests.map((request) => request.seed)
    }
    const first = await seeds(1)
    expect(await seeds(1)).toEqual(first)
    expect(new Set([...first, ...(await seeds(2))]).size).toBe(6)
  })

  it('passes no cap and no seed where there is none', async () => {
    const requests: SamplerRequest[] = []
    await runRollout({ env: countingEnv(1), sample: sampler(1, requests) })
    expect(Object.keys(requests[0]!).sort()).toEqual(['prompt', 'signal', 'stop', 'turn'])
  })
})

describe('budgets', () => {
  const run = (limits: Partial<RolloutLimits>, size = 4, env: Env = countingEnv(100)) => {
    const requests: SamplerRequest[] = []
    return runRollout({ env, sample: sampler(size, requests), limits }).then((trajectory) => ({ trajectory, requests }))
  }

  it('maxTurns ends before the next sample, and says so once', async () => {
    const { trajectory, requests } = await run({ maxTurns: 2 })
    expect(trajectory.stopReason).toBe('max_turns')
    expect(requests).toHaveLength(2)
    expect(trajectory.transitions.map((t) => t.episodeDone)).toEqual([false, true])
    expect(trajectory.transitions.flatMap((t) => Object.keys(t.metrics))).toEqual(['step', 'step', 'stop/max_turns'])
  })

  it('check 43: maxTurnTokens and maxEpisodeTokens are two limits, and both hold', async () => {
    const { trajectory, requests } = await run({ maxTurnTokens: 4, maxEpisodeTokens: 11 }, 100)
    expect(requests.map((request) => request.maxTokens)).toEqual([4, 4, 3])
    expect(trajectory.stopReason).toBe('max_sampled_tokens')
    expect(sampledTokens(trajectory)).toBe(11)
  })

  it('a remainder of 1 stops, a remainder of 2 samples with cap 2', async () => {
    expect((await run({ maxTrajectoryTokens: 11 })).trajectory).toMatchObject({ stopReason: 'max_tokens' })
    const { requests, trajectory } = await run({ maxTrajectoryTokens: 12 })
    expect(requests.map((request) => request.maxTokens)).toEqual([2])
    expect(trajectory.stopReason).toBe('max_tokens')
    expect((await run({ maxTurnTokens: 1, maxTurns: 1 })).requests[0]!.maxTokens).toBe(1)
  })

  it('the trajectory beats the sampled tokens when both are used up', async () => {
    const { trajectory } = await run({ maxTrajectoryTokens: 11, maxEpisodeTokens: 1 })
    expect(trajectory.stopReason).toBe('max_tokens')
  })

  it('a stop before any turn has one step without tokens', async () => {
    const { trajectory } = await run({ maxTrajectoryTokens: 5 })
    expect(trajectory.transitions).toHaveLength(1)
    expect(trajectory.transitions[0]).toMatchObject({ reward: 0, episodeDone: true, metrics: { 'stop/max_tokens': 1 } })
    expect(sampledTokens(trajectory)).toBe(0)
  })

  it('those of the environment hold unless others are given', async () => {
    const env = () => ({ ...countingEnv(100), limits: { maxTurns: 3, maxTurnTokens: 2 } })
    const { trajectory, requests } = await run({ maxTurns: 2 }, 9, env())
    expect(trajectory.transitions).toHaveLength(2)
    expect(requests[0]!.maxTokens).toBe(2)
  })

  it('the cap is the least of all', async () => {
    const capped = (maxTokens: number): Env => ({
      ...countingEnv(1),
      initialObservation: () => ({ tokens: new Int32Array(10), stop: [], maxTokens }),
    })
    expect((await run({ maxTurnTokens: 7 }, 9, capped(5))).requests[0]!.maxTokens).toBe(5)
    expect((await run({ maxTurnTokens: 3 }, 9, capped(5))).requests[0]!.maxTokens).toBe(3)
  })

  it('lets the environment grade what was reached', async () => {
    const messageEnv: MessageEnv = {
      ...onward(),
      finish: (reason) => ({ reward: 10, metrics: { graded: 1 }, logs: { reason } }),
    }
    const sample = scriptedSampler(renderer, () => 'x')
    const { transitions } = await runRollout({ env: adapter(messageEnv), sample, limits: { maxTurns: 2 } })
    expect(transitions.map((t) => t.reward)).toEqual([1, 11])
    expect(transitions[1]).toMatchObject({ metrics: { graded: 1, 'stop/max_turns': 1 }, logs: { reason: 'max_turns' } })
  })

  it('counts a reply that was cut off and went on', async () => {
    const messageEnv: MessageEnv = {
      ...onward(),
      observeTruncated: () => ({ reward: 0, episodeDone: false, nextMessages: [user('go on')] }),
    }
    const env = new EnvFromMessageEnv({ renderer, messageEnv, terminateOnLength: false })
    const { transitions } = await runRollout({
      env,
      sample: scriptedSampler(renderer, () => 'long reply'),
      limits: { maxTurns: 1, maxTurnTokens: 4 },
    })
    expect(transitions[0]!.metrics).toEqual({ truncated_turns: 1, 'stop/max_turns': 1 })
  })

  it('refuses limits that are no limits', () => {
    expect(() => runRollout({ env: countingEnv(1), sample: sampler(1), limits: { maxTurns: 0 } })).toThrow(/maxTurns/)
    const wrong = { maxTurn: 1 } as object
    expect(() => runRollout({ env: countingEnv(1), sample: sampler(1), limits: wrong })).toThrow(/"maxTurns"/)
  })
})

describe('deadlines and failures', () => {
  const seconds = 0.03

  it('check 45: an environment that never answers fails at its deadline, and hears of it', async () => {
    let heard = false
    const env: Env = {
      ...countingEnv(9),
      step(_, { signal }) {
        signal.addEventListener('abort', () => (heard = true))
        return hang()
      },
    }
    const rollout = runRollout({ env, sample: sampler(1), limits: { envTimeoutSeconds: seconds } })
    await expect(rollout).rejects.toMatchObject({ boundary: 'env', cause: { code: 'env_timeout' } })
    expect(heard).toBe(true)
  })

  it('a sampler that never answers fails at its deadline', async () => {
    const rollout = runRollout({ env: countingEnv(9), sample: hang, limits: { sampleTimeoutSeconds: seconds } })
    await expect(rollout).rejects.toMatchObject({ boundary: 'sampler', cause: { code: 'sample_timeout' } })
  })

  it('the deadline of the whole keeps what was reached', async () => {
    const sample: Sampler = (request) => (request.turn === 2 ? hang() : sampler(3)(request))
    const trajectory = await runRollout({ env: countingEnv(9), sample, limits: { rolloutTimeoutSeconds: seconds } })
    expect(trajectory.stopReason).toBe('rollout_timeout')
    expect(trajectory.transitions.map((t) => t.action.tokens.length)).toEqual([3, 3])
  })

  it('a rollout that reached nothing by its deadline has failed; it is no reward of 0', async () => {
    const rollout = runRollout({ env: countingEnv(9), sample: hang, limits: { rolloutTimeoutSeconds: seconds } })
    await expect(rollout).rejects.toMatchObject({ boundary: 'sampler', cause: { code: 'rollout_timeout' } })
  })

  it('an abort ends it at once, with its own reason', async () => {
    const controller = new AbortController()
    const rollout = runRollout({ env: countingEnv(9), sample: hang, signal: controller.signal })
    const reason = new Error('ctrl-c')
    controller.abort(reason)
    await expect(rollout).rejects.toBe(reason)
    const late = runRollout({ env: countingEnv(9), sample: sampler(1), signal: controller.signal })
    await expect(late).rejects.toBe(reason)
  })

  it('names the boundary', async () => {
    const bug = new TypeError('mine')
    const throws = () => Promise.reject(bug)
    const boundaryOf = (env: Env, sample: Sampler = sampler(2)) =>
      runRollout({ env, sample }).then(
        () => 'none',
        (error: { boundary: string; cause: unknown }) => [error.boundary, error.cause],
      )
    expect(await boundaryOf({ ...countingEnv(1), initialObservation: throws })).toEqual(['env', bug])
    expect(await boundaryOf({ ...countingEnv(1), step: throws })).toEqual(['env', bug])
    expect(await boundaryOf(countingEnv(1), throws)).toEqual(['sampler', bug])
    const roleColon = getRenderer('role_colon', byteTokenizer())
    const forged = mockMessageEnv(undefined, [user('\n\nUser: me')])
    const [boundary] = await boundaryOf(new EnvFromMessageEnv({ renderer: roleColon, messageEnv: forged }))
    expect(boundary).toBe('renderer')
  })

  it.each<[string, Partial<Action>, RegExp]>([
    ['fewer log-probs than tokens (check 11)', { logprobs: new Float32Array(1) }, /turn 0.*2 tokens and 1 log-probs/],
    ['tokens of another kind', { tokens: [1, 2] as unknown as Int32Array }, /Int32Array/],
    ['more tokens than asked for', { tokens: new Int32Array(9), logprobs: new Float32Array(9) }, /9 tokens, at most 4/],
    ['an unknown stop reason', { stopReason: 'eos' as 'stop' }, /"stop" or "length", got eos/],
  ])('refuses %s', async (_, wrong, message) => {
    const sample: Sampler = () => ({
      tokens: new Int32Array(2),
      logprobs: new Float32Array(2),
      stopReason: 'stop',
      ...wrong,
    })
    const rollout = runRollout({ env: countingEnv(1), sample, limits: { maxTurnTokens: 4 } })
    await expect(rollout).rejects.toMatchObject({ boundary: 'sampler', cause: { code: 'invalid_input' } })
    await expect(rollout).rejects.toThrow(message)
  })

  it('refuses a reward that is no number', async () => {
    const env = countingEnv(1, [Number.NaN])
    await expect(runRollout({ env, sample: sampler(1) })).rejects.toMatchObject({
      boundary: 'env',
      cause: { code: 'env_contract' },
    })
  })
})

describe('clientSampler', () => {
  const client = (contextLength?: number): SamplingClientLike & { asked: unknown[] } => {
    const asked: unknown[] = []
    return {
      asked,
      ...(contextLength === undefined ? {} : { contextLength }),
      sample: (request) => {
        asked.push(request)
        return Promise.resolve([
          { tokens: new Int32Array(1), logprobs: new Float32Array(1), stopReason: 'stop' as const },
        ])
      },
    }
  }

  it('asks for one sample, with the least cap and what is set', async () => {
    const used = client(64)
    const sample = clientSampler(used, { temperature: 0.7, topK: 5, topP: 0.9, maxTokens: 20 })
    await runRollout({ env: countingEnv(1), sample, seed: 1, limits: { maxTurnTokens: 30 } })
    expect(used.asked).toMatchObject([
      { maxTokens: 20, temperature: 0.7, topK: 5, topP: 0.9, seed: expect.any(Number) as number },
    ])
    expect(Object.keys(used.asked[0] as object)).not.toContain('numSamples')
  })

  it('leaves the room of the context', async () => {
    const used = client(13)
    await runRollout({ env: countingEnv(1), sample: clientSampler(used) })
    expect(used.asked).toMatchObject([{ maxTokens: 3 }])
  })

  it('check 43: a prompt that fills the context ends the episode as an overflow, never with a negative budget', async () => {
    const used = client(10)
    const env = new EnvFromMessageEnv({ renderer, messageEnv: onward(), contextOverflowReward: -2 })
    const trajectory = await runRollout({ env, sample: clientSampler(used) })
    expect(trajectory).toMatchObject({ stopReason: 'context_overflow', transitions: [{ reward: -2 }] })
    expect(used.asked).toEqual([])
  })

  it('check 43: an overflow costs the same wherever it is noticed: its reward is in place of the last one', async () => {
    const contextOverflowReward = -0.1
    const prompt = renderer.generationPrompt([user('go')]).length
    const reply = scriptedSampler(renderer, () => 'x')
    const sample: Sampler = (request) => {
      if (request.turn !== 0) throw new PromptOverflowError('no room')
      return reply(request)
    }
    const options = { renderer, messageEnv: onward(0.3), contextOverflowReward }
    const bySampler = await runRollout({ env: new EnvFromMessageEnv(options), sample })
    const own = new EnvFromMessageEnv({ ...options, maxTrajectoryTokens: prompt + 10 })
    const byEnv = await runRollout({ env: own, sample: reply })
    for (const { stopReason, transitions } of [bySampler, byEnv]) {
      expect({ stopReason, rewards: transitions.map(({ reward }) => reward) }).toEqual({
        stopReason: 'context_overflow',
        rewards: [contextOverflowReward],
      })
      expect(transitions[0]).toMatchObject({
        metrics: { context_overflow: 1, 'stop/context_overflow': 1 },
        logs: { reward_before_overflow: 0.3 },
      })
    }
  })

  it('asks for a cap when there is none', async () => {
    await expect(runRollout({ env: countingEnv(1), sample: clientSampler(client()) })).rejects.toThrow(
      /maxGenerationTokens/,
    )
  })
})
