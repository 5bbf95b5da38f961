import { assistant, text, textOf, toolCall, user, type Message } from '@selfplay/renderers'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { playEnv } from '../play-env.js'
import { scripted } from '../policies/scripted.js'
import { hang } from '../testing/index.js'
import { tool, type Tool } from './tool.js'
import { ToolEnv, type ToolEnvOptions } from './tool-env.js'

const add = tool({
  name: 'add',
  description: 'Adds two numbers.',
  parameters: z.object({ a: z.number(), b: z.number().default(1) }),
  run: ({ a, b }, { callId }) => ({ content: `${a + b}${callId ? ` (${callId})` : ''}`, metrics: { sum: a + b } }),
})
const fail = tool({
  name: 'fail',
  description: 'Fails.',
  parameters: z.object({}),
  run: () => Promise.reject(new Error('broken')),
})
const stop = tool({
  name: 'stop',
  description: 'Stops.',
  parameters: z.object({}),
  run: () => ({ content: 'bye', stop: true }),
})
const unparsed = (rawText: string) => ({ type: 'unparsed_tool_call' as const, rawText, error: 'invalid JSON' })

const env = (options: Partial<ToolEnvOptions> = {}) =>
  new ToolEnv({
    tools: [add, fail, stop],
    messages: [user('go')],
    grade: (transcript) => transcript.length,
    ...options,
  })
const calls = (...parts: Exclude<Message['content'], string>): Message => assistant(parts)
const resultsOf = (transcript: readonly Message[]) =>
  transcript.filter(({ role }) => role === 'tool').map((message) => [message.name, textOf(message)])

describe('tool', () => {
  it('describes its arguments as JSON schema', () => {
    expect(add).toMatchObject({
      name: 'add',
      parameters: {
        type: 'object',
        properties: { a: { type: 'number' }, b: { type: 'number', default: 1 } },
        required: ['a'],
      },
    })
    expect(add.parameters).not.toHaveProperty('$schema')
  })

  it('refuses a name or a schema that cannot be declared', () => {
    const rest = { description: '', run: () => '' }
    expect(() => tool({ name: 'two words', parameters: z.object({}), ...rest })).toThrow(/two words/)
    expect(() => tool({ name: 'f', parameters: z.object({ when: z.date() }), ...rest })).toThrow(/tool "f"/)
  })

  it('refuses two of one name', () => {
    expect(() => env({ tools: [add, add] })).toThrow(/two tools are called "add"/)
  })
})

describe('ToolEnv', () => {
  it('answers calls until a reply has none, and grades the whole once', async () => {
    const episode = await playEnv(env(), scripted([calls(toolCall('add', { a: 2, b: 3 }, 'c1')), 'It is 5.']))
    expect(resultsOf(episode.transcript)).toEqual([['add', '5 (c1)']])
    expect(episode.transcript[2]).toMatchObject({ role: 'tool', toolCallId: 'c1' })
    expect(episode).toMatchObject({ stopReason: 'completed', reward: 4 })
    expect(episode.turns[0]).toMatchObject({ reward: 0, metrics: { 'add/sum': 5, tool_calls: 1, tool_errors: 0 } })
    expect(episode.turns[0]!.logs).toEqual({ tool_call_0: 'add {"a":2,"b":3}', tool_result_0: '5 (c1)' })
  })

  it('check 42: two valid calls and a bad one give two results and an error, in order, and the turn goes on', async () => {
    const turn = calls(toolCall('add', { a: 1 }), unparsed('{"name": "add", oops'), toolCall('add', { a: 4, b: 4 }))
    const episode = await playEnv(env(), scripted([turn, 'done']))
    const results = resultsOf(episode.transcript)
    expect(results.map(([name]) => name)).toEqual(['add', 'add', 'add'])
    expect([results[0]![1], results[2]![1]]).toEqual(['2', '8'])
    expect(JSON.parse(results[1]![1]!)).toEqual({ error: 'json_decode_failed', message: 'invalid JSON' })
    expect(episode.turns[0]!.metrics).toMatchObject({ tool_calls: 2, tool_errors: 1 })
    expect(episode.stopReason).toBe('completed')
  })

  it('check 42: a reply of nothing but bad JSON gets an error and another turn', async () => {
    const episode = await playEnv(env(), scripted([calls(unparsed('???')), 'sorry']))
    expect(JSON.parse(resultsOf(episode.transcript)[0]![1]!)).toMatchObject({ error: 'json_decode_failed' })
    expect(episode.stopReason).toBe('completed')
  })

  it.each([
    ['tool_not_found', toolCall('ad', {}), /no tool is called "ad"; there are: add, fail, stop/],
    ['validation_failed', toolCall('add', { a: 'x' }), /a: .*number/],
    ['execution_failed', toolCall('fail', {}), /broken/],
  ])('tells the model of %s', async (error, call, message) => {
    const episode = await playEnv(env(), scripted([calls(call), 'done']))
    const told = JSON.parse(resultsOf(episode.transcript)[0]![1]!) as { error: string; message: string }
    expect(told.error).toBe(error)
    expect(told.message).toMatch(message)
  })

  it('tells the model of a tool that never answers', async () => {
    const slow = tool({ name: 'slow', description: '', parameters: z.object({}), run: hang })
    const episode = await playEnv(
      env({ tools: [slow], toolTimeoutSeconds: 0.02 }),
      scripted([calls(toolCall('slow', {})), 'x']),
    )
    expect(resultsOf(episode.transcript)[0]![1]).toContain('tool_timeout')
  })

  it('stops when a tool asks for it', async () => {
    const episode = await playEnv(env(), scripted([calls(toolCall('stop', {}))]))
    expect(episode).toMatchObject({ stopReason: 'tool_stopped', reward: 3 })
  })

  it('stops at its turns and still grades', async () => {
    const again = calls(toolCall('add', { a: 1 }))
    const episode = await playEnv(env({ maxTurns: 2 }), scripted([again, again, again]))
    expect(episode).toMatchObject({ stopReason: 'max_turns', reward: 5, turns: { length: 2 } })
  })

  it('runs the first calls of a turn that asks for too many, and goes on when the budget is just used up', async () => {
    const two = calls(toolCall('add', { a: 1 }), toolCall('add', { a: 2 }))
    const exact = await playEnv(env({ maxToolCalls: 2 }), scripted([two, 'done']))
    expect(exact.stopReason).toBe('completed')
    const over = await playEnv(env({ maxToolCalls: 3 }), scripted([two, two, 'x']))
    expect(over.stopReason).toBe('max_tool_calls')
    expect(resultsOf(over.transcript)).toHaveLength(3)
    expect(over.turns[1]!.metrics).toMatchObject({ tool_calls: 1, tool_calls_dropped: 1 })
  })

  it.each(['parallel', 'sequential'] as const)(
    'runs calls %s, with results in the order of the calls',
    async (execution) => {
      let running = 0
      let most = 0
      const slow: Tool = tool({
        name: 'slow',
        description: '',
        parameters: z.object({ ms: z.number() }),
        async run({ ms }) {
          most = Math.max(most, ++running)
          await new Promise((resolve) => setTimeout(resolve, ms))
          running--
          return `${ms}`
        },
      })
      const turn = calls(text('both:'), toolCall('slow', { ms: 20 }), toolCall('slow', { ms: 1 }))
      const episode = await playEnv(env({ tools: [slow], execution }), scripted([turn, 'x']))
      expect(resultsOf(episode.transcript).map(([, result]) => result)).toEqual(['20', '1'])
      expect(most).toBe(execution === 'parallel' ? 2 : 1)
    },
  )

  it('lets an abort through', async () => {
    const controller = new AbortController()
    const slow = tool({ name: 'slow', description: '', parameters: z.object({}), run: hang })
    const playing = playEnv(env({ tools: [slow] }), scripted([calls(toolCall('slow', {}))]), {
      signal: controller.signal,
    })
    await new Promise((resolve) => setImmediate(resolve))
    controller.abort(new Error('ctrl-c'))
    await expect(playing).rejects.toThrow('ctrl-c')
  })

  it('declares its tools, and nothing of how they run', () => {
    expect(Object.keys(env().tools[0]!)).toEqual(['name', 'description', 'parameters'])
  })
})
