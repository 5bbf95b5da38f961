import { setTimeout as sleep } from 'node:timers/promises'
import { NonFiniteError, type Datum } from '@selfplay/engine'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { loadFixture, type Fixture } from '../models/testing/fixtures.js'
import { modelWeights } from '../models/weights.js'
import { createRuntime, type Runtime } from '../runtime/index.js'
import { cutForLanes } from './lanes.js'
import { ModelCore } from './model-core.js'
import type { Parameter } from './parameters.js'
import { runPasses } from './passes.js'

const OPTIONS = { gradients: true, activationBytes: 2 ** 30 }
const LOSS = { name: 'cross_entropy' } as const

let fixture: Fixture
const cores: ModelCore[] = []
const runtimes: Runtime[] = []

async function open(threads: number): Promise<{ core: ModelCore; parameters: Parameter[] }> {
  const runtime = await createRuntime({ threads })
  const { folder, config } = fixture
  const core = await ModelCore.create({ runtime, folder, config, training: 'full', contextLength: 64 })
  core.retain()
  cores.push(core)
  runtimes.push(runtime)
  const parameters = modelWeights(config).map(({ name, shape }) => ({
    name,
    shape,
    weight: runtime.tensor('float32', fixture.weights.get(name)!.slice(), shape),
  }))
  return { core, parameters }
}

/** 40 sequences of up to 40 tokens, some trained only in part. */
function manySequences(): Datum[] {
  const { vocabSize } = fixture.config
  return Array.from({ length: 40 }, (_, i) => {
    const ids = Int32Array.from({ length: 25 + (i % 16) }, (_, t) => (7 * i + 13 * t + t * t) % vocabSize)
    const weights = Float32Array.from({ length: ids.length - 1 }, (_, t) => (t < i % 5 ? 0 : 1 + (i % 3)))
    return { tokens: ids.subarray(0, -1), targets: ids.subarray(1), weights }
  })
}

beforeAll(async () => {
  fixture = await loadFixture('qwen2')
})
afterAll(async () => {
  for (const core of cores) await core.release()
  for (const runtime of runtimes) await runtime.dispose()
})

describe('micro-batches side by side', () => {
  it('give what they give one after another, and the same bytes each time', async () => {
    const [one, two, three] = [await open(1), await open(2), await open(3)]
    expect([one.core.lanes, two.core.lanes, three.core.lanes]).toEqual([1, 2, 3])
    const data = manySequences()
    const wanted = await runPasses(one.core, one.parameters, data, LOSS, OPTIONS)
    for (const { core, parameters } of [two, three]) {
      const sessions = vi.spyOn(core, 'session')
      const got = await runPasses(core, parameters, data, LOSS, OPTIONS)
      expect(sessions.mock.calls.length).toBeGreaterThanOrEqual(core.lanes)
      expect(sessions.mock.calls.length % core.lanes).toBe(0)
      expect(sessions.mock.calls.every(([, , , inLane]) => inLane)).toBe(true)
      sessions.mockRestore()
      expect(got.loss / wanted.loss).toBeCloseTo(1, 6)
      expect(got.metrics['tokens']).toBe(wanted.metrics['tokens'])
      got.logprobs.forEach((row, i) => row.forEach((value, t) => expect(value).toBeCloseTo(wanted.logprobs[i]![t]!, 4)))
      for (const [name, gradient] of wanted.gradients!) {
        const other = got.gradients!.get(name)!.data!
        const norm = Math.hypot(...gradient.data!)
        const difference = Math.hypot(...gradient.data!.map((value, i) => value - other[i]!))
        expect(difference / Math.max(norm, 1e-3), name).toBeLessThan(1e-5)
      }
      const again = await runPasses(core, parameters, data, LOSS, OPTIONS)
      expect(again.loss).toBe(got.loss)
      for (const [name, gradient] of got.gradients!) expect(again.gradients!.get(name)!.data).toEqual(gradient.data)
    }
  })

  it('use the buffers of the call before again, however many batches a lane has', async () => {
    const { core, parameters } = await open(2)
    const data = manySequences()
    const options = { ...OPTIONS, activationBytes: 2 ** 21 }
    expect(cutForLanes(core, data, options).length).toBeGreaterThan(2 * core.lanes)
    const call = async () => core.giveGradients((await runPasses(core, parameters, data, LOSS, options)).gradients!)
    await call()
    const allocate = vi.spyOn(core.runtime, 'allocate')
    await call()
    expect(allocate).not.toHaveBeenCalled()
    allocate.mockRestore()
  })

  it('name the datum whose loss is not finite, and give every buffer back', async () => {
    const { core, parameters } = await open(2)
    const data = manySequences()
    data[17] = { ...data[17]!, weights: data[17]!.weights!.map((weight) => weight * NaN) }
    let taken = 0
    const take = core.takeGradients.bind(core)
    const give = core.giveGradients.bind(core)
    core.takeGradients = (all) => (taken++, take(all))
    core.giveGradients = (all) => (taken--, give(all))
    const failed = await runPasses(core, parameters, data, LOSS, OPTIONS).catch((error: unknown) => error)
    expect(failed).toBeInstanceOf(NonFiniteError)
    expect((failed as NonFiniteError).details).toMatchObject({ datum: 17 })
    expect(taken).toBe(0)
    const { gradients } = await runPasses(core, parameters, manySequences(), LOSS, OPTIONS)
    expect(taken).toBe(1)
    core.giveGradients(gradients!)
  })

  it.each([0, 1])('name the same of several such datums when lane %i is slow', async (slow) => {
    const { core, parameters } = await open(2)
    const data = manySequences()
    const options = { ...OPTIONS, activationBytes: 2 ** 19 }
    const [, second, third] = cutForLanes(core, data, options)
    const bad = [...second!.datums.slice(-2), ...third!.datums]
    for (const at of bad) data[at] = { ...data[at]!, weights: data[at]!.weights!.map((weight) => weight * NaN) }
    const session = core.session.bind(core)
    let calls = 0
    core.session = async (...args) => {
      if (calls++ === slow) await sleep(300)
      return session(...args)
    }
    const failed = await runPasses(core, parameters, data, LOSS, options).catch((error: unknown) => error)
    expect((failed as NonFiniteError).details).toMatchObject({ datum: Math.min(...second!.datums.slice(-2)) })
  })

  it('take one buffer besides the sum, however the head is cut for each of them', async () => {
    const { core, parameters } = await open(1)
    expect(core.tiedAndTrained).toBe(true)
    const data = [30, 28, 20, 9, 5, 3].map((length, i) => {
      const { tokens, targets } = manySequences()[39 - i]!
      return { tokens: tokens.subarray(0, length), targets: targets.subarray(0, length) }
    })
    const wanted = await runPasses(core, parameters, data, LOSS, OPTIONS)
    const sessions = vi.spyOn(core, 'session')
    const take = vi.spyOn(core, 'takeGradients')
    const got = await runPasses(core, parameters, data, LOSS, { ...OPTIONS, activationBytes: 2 ** 16 })
    expect(new Set(sessions.mock.calls.map(([, , chunks]) => chunks))).toEqual(new Set([4, 2, 1]))
    expect(take).toHaveBeenCalledTimes(2)
    for (const [name, gradient] of wanted.gradients!) {
      const other = got.gradients!.get(name)!.data!
      const difference = Math.hypot(...gradient.data!.map((value, i) => value - other[i]!))
      expect(difference / Math.max(Math.hypot(...gradient.data!), 1e-3), name).toBeLessThan(1e-5)
    }
  })

  it('stop when they are told to', async () => {
    const { core, parameters } = await open(2)
    const signal = AbortSignal.abort(new Error('enough'))
    await expect(runPasses(core, parameters, manySequences(), LOSS, { ...OPTIONS, signal })).rejects.toThrow('enough')
  })

  it('are for models whose gradients every lane can hold, with a runtime whose runs overlap', async () => {
    const runtime = await createRuntime({ kind: 'binding', threads: 2 })
    const { folder, config } = fixture
    const parts = { runtime, folder, training: 'full', contextLength: 64 } as const
    const onBinding = await ModelCore.create({ ...parts, config })
    const large = await ModelCore.create({ ...parts, runtime: runtimes[1]!, config: { ...config, vocabSize: 400_000 } })
    const agents = await ModelCore.create({ ...parts, runtime: runtimes[1]!, config, agents: 2 })
    expect([onBinding.lanes, large.lanes, agents.lanes]).toEqual([1, 1, 1])
    for (const core of [onBinding, large, agents]) {
      core.retain()
      await core.release()
    }
    await runtime.dispose()
  })
})
