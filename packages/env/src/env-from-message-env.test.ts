import {
  assistant,
  createRenderer,
  defineChatFormat,
  getRenderer,
  markup,
  system,
  textOf,
  toolCall,
  user,
  type Message,
} from '@selfplay/renderers'
import { describe, expect, it } from 'vitest'
import { neverAborted } from './on-abort.js'
import { EnvFromMessageEnv, type EnvFromMessageEnvOptions } from './env-from-message-env.js'
import type { MessageEnv, MessageStepResult } from './message-env.js'
import { runRollout } from './rollout/run-rollout.js'
import { byteTokenizer, mockMessageEnv, scriptedSampler } from './testing/index.js'
import { sampledTokens } from './types.js'

const tokenizer = byteTokenizer()
const renderer = getRenderer('chatml', tokenizer, { defaultSystem: null })
const options = { signal: neverAborted }
const done: MessageStepResult = { reward: 1, episodeDone: true, nextMessages: [] }

const adapter = (messageEnv: MessageEnv, rest: Partial<EnvFromMessageEnvOptions> = {}) =>
  new EnvFromMessageEnv({ renderer, messageEnv, ...rest })
const ids = (text: string) => Int32Array.from([...tokenizer.encode(text), tokenizer.tokenId('<|im_end|>')!])
const said = (text: string) => ({ tokens: ids(text), stopReason: 'stop' as const })
const unfinished = (text: string) => ({ tokens: Int32Array.from(tokenizer.encode(text)), stopReason: 'stop' as const })

/** Says `again` until the third reply. */
const threeTurns = () =>
  mockMessageEnv((_, { turn }) =>
    turn === 2 ? done : { reward: 0.25, episodeDone: false, nextMessages: [user(`again ${turn}`)] },
  )

/** Never calls its step. */
const untouched = () =>
  mockMessageEnv(() => {
    throw new Error('step was called')
  })

describe('options', () => {
  it('has the documented defaults as properties', () => {
    const messageEnv = mockMessageEnv()
    expect(adapter(messageEnv)).toMatchObject({
      renderer,
      messageEnv,
      failedParseReward: -1,
      terminateOnParseError: true,
      maxTrajectoryTokens: null,
      maxGenerationTokens: null,
      contextOverflowReward: -0.1,
      lengthReward: -0.1,
      terminateOnLength: true,
      parseErrorPolicy: null,
      history: 'sampled',
      rolloutLimits: null,
    })
  })

  it('keeps what is given', () => {
    const given = {
      failedParseReward: -2,
      maxTrajectoryTokens: 256,
      maxGenerationTokens: 64,
      history: 'template',
    } as const
    expect(adapter(mockMessageEnv(), given)).toMatchObject(given)
  })

  it('refuses an unknown option with the nearest known one', () => {
    const wrong = { maxGenerationToken: 3 } as object
    expect(() => adapter(mockMessageEnv(), wrong)).toThrow(/no option "maxGenerationToken".*"maxGenerationTokens"/)
    expect(() => adapter(mockMessageEnv(), { maxTrajectoryTokens: -1 })).toThrow(/maxTrajectoryTokens/)
    expect(() => adapter(mockMessageEnv(), { rolloutLimits: { maxTurn: 3 } as object })).toThrow(/"maxTurns"/)
  })

  it('forwards the id of the example, reducers and limits', () => {
    const messageEnv: MessageEnv = { ...mockMessageEnv(), exampleId: 'q7', metricReducers: { hit: 'rate' } }
    const env = adapter(messageEnv, { rolloutLimits: { maxTurns: 3 } })
    expect(env).toMatchObject({ exampleId: 'q7', metricReducers: { hit: 'rate' }, limits: { maxTurns: 3 } })
  })
})

describe('a clean reply', () => {
  it('renders the first messages and stops as the format does', async () => {
    const first = [system('Be brief.'), user('go')]
    const observation = await adapter(mockMessageEnv(undefined, first)).initialObservation(options)
    expect(observation).toEqual({ tokens: renderer.generationPrompt(first), stop: renderer.stop })
  })

  it('hands the message to the environment, with how it ended', async () => {
    const seen: unknown[] = []
    const env = adapter(
      mockMessageEnv((reply, { termination, turn, transcript }) => {
        seen.push(reply, termination, turn, transcript.length)
        return { ...done, metrics: { hit: 1 }, logs: { note: 'x' } }
      }),
    )
    await env.initialObservation(options)
    const step = await env.step(said('hello'), options)
    expect(seen).toEqual([assistant('hello'), 'stop', 0, 2])
    expect(step).toMatchObject({ reward: 1, episodeDone: true, stopReason: 'completed', metrics: { hit: 1 } })
    expect(env.transcript).toEqual([user('go'), assistant('hello')])
  })

  it('takes the end of the sequence as a clean end', async () => {
    const env = adapter(mockMessageEnv((_, { termination }) => ({ ...done, logs: { termination } })))
    await env.initialObservation(options)
    const eos = Int32Array.from([...tokenizer.encode('hi'), tokenizer.tokenId('<|endoftext|>')!])
    expect(await env.step({ tokens: eos, stopReason: 'stop' }, options)).toMatchObject({
      reward: 1,
      logs: { termination: 'eos' },
    })
  })

  it('uses the stop of a step for the next sample only, and its own for an empty one', async () => {
    const stops = [['x'], []]
    const env = adapter(
      mockMessageEnv((_, { turn }) => ({
        reward: 0,
        episodeDone: false,
        nextMessages: [user('more')],
        nextStop: stops[turn] ?? [],
      })),
    )
    await env.initialObservation(options)
    expect((await env.step(said('a'), options)).nextObservation.stop).toEqual(['x'])
    expect((await env.step(said('b'), options)).nextObservation.stop).toEqual(renderer.stop)
  })

  it('serves one episode', async () => {
    const env = adapter(mockMessageEnv())
    await expect(env.step(said('x'), options)).rejects.toMatchObject({ code: 'env_reused' })
    await env.initialObservation(options)
    await expect(env.initialObservation(options)).rejects.toMatchObject({ code: 'env_reused' })
    await env.step(said('x'), options)
    await expect(env.step(said('x'), options)).rejects.toMatchObject({ code: 'env_reused' })
  })
})

describe('an unreadable reply', () => {
  it('ends the episode with failedParseReward and is kept from the environment', async () => {
    const env = adapter(untouched(), { failedParseReward: -3 })
    await env.initialObservation(options)
    expect(await env.step(unfinished('no end'), options)).toMatchObject({
      reward: -3,
      episodeDone: true,
      stopReason: 'parse_error',
      metrics: { parse_error: 1 },
      logs: { parse_failure_kind: 'structural' },
    })
  })

  it('does not throw for two stops in one reply', async () => {
    const env = adapter(untouched())
    await env.initialObservation(options)
    const stop = tokenizer.tokenId('<|im_end|>')!
    const twice = Int32Array.from([...tokenizer.encode('a'), stop, ...tokenizer.encode('b'), stop])
    expect(await env.step({ tokens: twice, stopReason: 'stop' }, options)).toMatchObject({ stopReason: 'parse_error' })
  })

  it('never goes on with an empty prompt: the policy is asked again, after what it said', async () => {
    const env = adapter(mockMessageEnv(), { terminateOnParseError: false })
    const first = await env.initialObservation(options)
    const bad = unfinished('no end')
    const step = await env.step(bad, options)
    expect(step).toMatchObject({ reward: -1, episodeDone: false, metrics: { parse_error: 1, parse_retries: 1 } })
    expect(step.stopReason).toBeUndefined()
    const before = 'tokens' in first ? [...first.tokens, ...bad.tokens] : []
    expect([...step.nextObservation.tokens].slice(0, before.length)).toEqual(before)
    expect(textOf(env.transcript.at(-1)!)).toContain('could not be read')
    expect(await env.step(said('fine'), options)).toMatchObject({ reward: 1, stopReason: 'completed' })
  })

  const qwen = getRenderer('qwen3_instruct', tokenizer)
  const badCall = Int32Array.from([
    tokenizer.tokenId('<tool_call>')!,
    ...tokenizer.encode('\n{"name": oops}\n'),
    tokenizer.tokenId('</tool_call>')!,
    tokenizer.tokenId('<|im_end|>')!,
  ])
  const goodCall = Int32Array.from([
    tokenizer.tokenId('<tool_call>')!,
    ...tokenizer.encode('\n{"name": "f", "arguments": {}}\n'),
    tokenizer.tokenId('</tool_call>')!,
  ])
  const policy = { maxConsecutive: 1, penaltyPerError: 0.5, retryMessage: 'Wrong: {details}', maskErrorTurns: true }
  const withPolicy = (messageEnv: MessageEnv, rest: Partial<EnvFromMessageEnvOptions> = {}) =>
    new EnvFromMessageEnv({ renderer: qwen, messageEnv, parseErrorPolicy: policy, ...rest })
  const calls = (tokens: Int32Array) => ({ tokens, stopReason: 'stop' as const })

  it('with a policy, is tried again at a price, so often in a row', async () => {
    const env = withPolicy(
      mockMessageEnv((_, { turn }) => ({ reward: 0, episodeDone: false, nextMessages: [user(`${turn}`)] })),
    )
    await env.initialObservation(options)
    const retried = { reward: -0.5, episodeDone: false, masked: true, metrics: { parse_error_masked: 1 } }
    expect(await env.step(calls(badCall), options)).toMatchObject(retried)
    expect(textOf(env.transcript.at(-1)!)).toMatch(/^Wrong: /)
    expect(await env.step(said('fine'), options)).toMatchObject({ reward: 0, episodeDone: false })
    expect(await env.step(calls(badCall), options)).toMatchObject(retried) // the count began anew
    expect(await env.step(calls(badCall), options)).toMatchObject({
      reward: -1,
      episodeDone: true,
      masked: true,
      stopReason: 'parse_error',
    })
  })

  it('with a policy, ends with terminalReward, and structural failures are not tried again', async () => {
    const env = withPolicy(untouched(), { parseErrorPolicy: { ...policy, terminalReward: -7 } })
    await env.initialObservation(options)
    expect(await env.step(unfinished('x'), options)).toMatchObject({ reward: -7, episodeDone: true })
  })

  it('with a policy, a reply with a good call beside a bad one goes to the environment', async () => {
    const env = withPolicy(mockMessageEnv((reply) => ({ ...done, logs: { parts: reply.content.length } })))
    await env.initialObservation(options)
    expect(await env.step(calls(Int32Array.from([...goodCall, ...badCall])), options)).toMatchObject({ reward: 1 })
  })

  it('without a policy, a bad call goes to the environment, which can answer it', async () => {
    let seen: Message | undefined
    const env = new EnvFromMessageEnv({
      renderer: qwen,
      messageEnv: mockMessageEnv((reply) => {
        seen = reply
        return done
      }),
    })
    await env.initialObservation(options)
    await env.step(calls(badCall), options)
    expect(seen?.content).toMatchObject([{ type: 'unparsed_tool_call' }])
  })
})

describe('length', () => {
  const cutOff = (text: string) => ({ tokens: Int32Array.from(tokenizer.encode(text)), stopReason: 'length' as const })

  it('has a reward of its own', async () => {
    const env = adapter(untouched(), { lengthReward: -0.7, contextOverflowReward: -9 })
    await env.initialObservation(options)
    expect(await env.step(cutOff('too lo'), options)).toMatchObject({
      reward: -0.7,
      episodeDone: true,
      stopReason: 'max_tokens',
      metrics: { max_tokens_reached: 1 },
    })
  })

  it('goes on where the environment observes it, and ends where it does not', async () => {
    const observing: MessageEnv = {
      ...untouched(),
      observeTruncated: (reply) =>
        textOf(reply) === 'part one' ? { reward: 0, episodeDone: false, nextMessages: [user('go on')] } : undefined,
    }
    const env = adapter(observing, { terminateOnLength: false })
    await env.initialObservation(options)
    const step = await env.step(cutOff('part one'), options)
    expect(step).toMatchObject({ reward: 0, episodeDone: false })
    expect(env.transcript).toEqual([user('go'), assistant('part one'), user('go on')])
    expect(await env.step(cutOff('other'), options)).toMatchObject({ reward: -0.1, stopReason: 'max_tokens' })
  })
})

describe('context overflow (check 43)', () => {
  const promptLength = renderer.generationPrompt([user('go')]).length

  it('check 43: a first prompt that fills the window ends the episode before it began, with its reward', async () => {
    const env = adapter(untouched(), { maxTrajectoryTokens: promptLength, contextOverflowReward: -4 })
    const trajectory = await runRollout({ env, sample: () => Promise.reject(new Error('sampled')) })
    expect(trajectory).toMatchObject({
      stopReason: 'context_overflow',
      transitions: [{ reward: -4, episodeDone: true }],
    })
    expect(trajectory.transitions[0]!.metrics).toEqual({ max_tokens_reached: 1, 'stop/context_overflow': 1 })
    expect(sampledTokens(trajectory)).toBe(0)
  })

  it('reserves room for the sample; the exact fit passes and caps the sample', async () => {
    const fit = adapter(untouched(), { maxTrajectoryTokens: promptLength + 5, maxGenerationTokens: 5 })
    expect(await fit.initialObservation(options)).toMatchObject({ maxTokens: 5 })
    const tight = adapter(untouched(), { maxTrajectoryTokens: promptLength + 4, maxGenerationTokens: 5 })
    expect(await tight.initialObservation(options)).toMatchObject({ overflow: true })
    const open = adapter(untouched(), { maxTrajectoryTokens: promptLength + 1 })
    expect(await open.initialObservation(options)).toMatchObject({ maxTokens: 1 })
  })

  it('after a step: replaces the reward, keeps metrics and logs, tells the numbers', async () => {
    const env = adapter(
      mockMessageEnv(() => ({
        reward: 5,
        episodeDone: false,
        nextMessages: [user('x'.repeat(100))],
        metrics: { hit: 1 },
        logs: { note: 'n' },
      })),
      { maxTrajectoryTokens: promptLength + 60, maxGenerationTokens: 20 },
    )
    await env.initialObservation(options)
    const step = await env.step(said('hello'), options)
    expect(step).toMatchObject({ reward: -0.1, episodeDone: true, stopReason: 'context_overflow' })
    expect(step.metrics).toEqual({ hit: 1, context_overflow: 1 })
    expect(step.logs).toMatchObject({ note: 'n', reward_before_overflow: 5 })
    expect(step.logs!['context_overflow']).toContain(`> ${promptLength + 60}`)
  })

  it('is not tested for an episode that is done', async () => {
    const env = adapter(mockMessageEnv(), { maxTrajectoryTokens: promptLength + 10, maxGenerationTokens: 10 })
    await env.initialObservation(options)
    expect(await env.step(said('0123456789abcdef'), options)).toMatchObject({ reward: 1, stopReason: 'completed' })
  })
})

describe('history', () => {
  it('check 11: prompt k+1 starts with prompt k and sample k, so the sampled tokens are all there and nothing else is', async () => {
    const env = adapter(threeTurns())
    const trajectory = await runRollout({ env, sample: scriptedSampler(renderer, ['one', 'two', 'three']) })
    const { transitions } = trajectory
    const mask = new Uint8Array(trajectory.finalObservation.length)
    for (const [k, { observation, action }] of transitions.entries()) {
      const next = [...(transitions[k + 1]?.observation ?? trajectory.finalObservation)]
      expect(next.slice(0, observation.length + action.tokens.length)).toEqual([...observation, ...action.tokens])
      mask.fill(1, observation.length, observation.length + action.tokens.length)
    }
    expect(mask.reduce((sum, bit) => sum + bit, 0)).toBe(sampledTokens(trajectory))
    expect(transitions[0]!.action.logprobs).toHaveLength(transitions[0]!.action.tokens.length)
    expect(env.breaks).toEqual([])
  })

  it('keeps ids that the tokenizer itself would not choose', async () => {
    // A vocabulary with one more token, "ab", that the model did not use: it wrote "a", "b".
    const merged = {
      ...tokenizer,
      encode: (text: string) =>
        text.split(/(ab)/).flatMap((piece) => (piece === 'ab' ? [300] : tokenizer.encode(piece))),
      decode: (given: readonly number[] | Int32Array) =>
        tokenizer.decode(Array.from(given).flatMap((id) => (id === 300 ? [97, 98] : [id]))),
      vocabSize: 301,
    }
    const format = defineChatFormat({
      name: 'plain',
      markers: ['<|im_start|>', '<|im_end|>'],
      stop: ['<|im_end|>'],
      turn: ({ role }) => ({ header: markup`<|im_start|>${role}\n`, end: markup`<|im_end|>\n` }),
    })
    const tokens = Int32Array.from([97, 98, tokenizer.tokenId('<|im_end|>')!])
    for (const [history, breaks] of [
      ['sampled', 0],
      ['template', 1],
    ] as const) {
      const env = new EnvFromMessageEnv({ renderer: createRenderer(format, merged), messageEnv: threeTurns(), history })
      await env.initialObservation(options)
      const { nextObservation, metrics, logs } = await env.step({ tokens, stopReason: 'stop' }, options)
      expect(nextObservation.tokens.includes(300)).toBe(history === 'template')
      expect(env.breaks).toHaveLength(breaks)
      expect(metrics?.['prefix_breaks'] ?? 0).toBe(breaks)
      expect(logs?.['prefix_break']).toBe(breaks ? 'retokenised' : undefined)
    }
  })

  it('counts what replaces the transcript as a break, with the reason', async () => {
    const replaced = [
      [system('s'), user('summary'), user('and'), user('go on')],
      [system('other'), user('go')],
      [system('s'), user('go')],
    ]
    const reasons = ['rewritten', 'system_changed', 'truncated']
    for (const [k, replaceTranscript] of replaced.entries()) {
      const env = adapter(
        mockMessageEnv(
          () => ({ reward: 0, episodeDone: false, nextMessages: [], replaceTranscript: replaceTranscript! }),
          [system('s'), user('go')],
        ),
      )
      await env.initialObservation(options)
      const step = await env.step(said('x'), options)
      expect(step.metrics).toEqual({ prefix_breaks: 1 })
      expect(step.logs).toEqual({ prefix_break: reasons[k] })
      expect(step.nextObservation.tokens).toEqual(renderer.generationPrompt(replaceTranscript!))
    }
  })

  it('declares the tools of the environment in the prompt', async () => {
    const tools = [{ name: 'f', description: 'does', parameters: { type: 'object' } }]
    const observation = await adapter({ ...mockMessageEnv(), tools }).initialObservation(options)
    expect('tokens' in observation && tokenizer.decode(observation.tokens)).toContain('"name": "f"')
    expect(toolCall('f', {}).name).toBe(tools[0]!.name)
  })
})
