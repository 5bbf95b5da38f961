import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { loadAgents } from '../load.js'
import { createRuntime, type Runtime } from '../runtime/index.js'

/** Whether these small models count as large. */
let large = false
vi.mock(import('../models/execution-plan.js'), async (original) => ({
  ...(await original()),
  decodersMakeRoom: () => large,
}))

const qwen2 = fileURLToPath(new URL('../../../../fixtures/models/qwen2', import.meta.url))
const request = { prompt: Int32Array.of(1, 2, 3), numSamples: 3, maxTokens: 12, seed: 4, stop: [] }
const data = [{ tokens: Int32Array.of(1, 2, 3, 4), targets: Int32Array.of(2, 3, 4, 5) }]

let runtime: Runtime
beforeAll(async () => {
  runtime = await createRuntime({ threads: 1 })
})
afterAll(() => runtime.dispose())
beforeEach(() => {
  large = false
})

const open = () => loadAgents(qwen2, 2, { runtime, slots: 4, contextLength: 64 })

describe('before a backward pass of a large model', () => {
  it.each([false, true])('decoders of all agents give their sessions back: large %s', async (isLarge) => {
    large = isLarge
    const agents = await open()
    const samplers = await Promise.all(agents.map((agent) => agent.sampler()))
    const before = await Promise.all(samplers.map((sampler) => sampler.sample(request)))
    await agents[0]!.forwardBackward(data, { name: 'cross_entropy' })
    const made = vi.spyOn(runtime, 'createSession')
    const after = await Promise.all(samplers.map((sampler) => sampler.sample(request)))
    expect(made.mock.calls.length > 0).toBe(isLarge)
    expect(after).toEqual(before)
    made.mockRestore()
    await Promise.all(agents.map((agent) => agent.dispose()))
  })

  it('one that is at work is left alone', async () => {
    large = true
    const agents = await open()
    const sampler = await agents[1]!.sampler()
    const expected = await sampler.sample(request)
    const running = sampler.sample(request)
    await agents[0]!.forwardBackward(data, { name: 'cross_entropy' })
    expect(await running).toEqual(expected)
    await Promise.all(agents.map((agent) => agent.dispose()))
  })

  it('a frozen snapshot answers as before', async () => {
    large = true
    const [agent] = await open()
    const snapshot = await agent!.snapshot()
    const before = await snapshot.logprobs(Int32Array.of(1, 2, 3, 4))
    await agent!.forwardBackward(data, { name: 'cross_entropy' })
    expect(await snapshot.logprobs(Int32Array.of(1, 2, 3, 4))).toEqual(before)
    await snapshot.dispose()
    await agent!.dispose()
  })
})
