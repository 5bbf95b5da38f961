import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { FIXTURES, loadFixture } from '../models/testing/fixtures.js'
import { LINEAR_NAMES } from '../models/weights.js'
import { createRuntime } from '../runtime/index.js'
import type { Runtime } from '../runtime/index.js'
import { loraWeights } from '../models/lora.js'
import { OrtStepModel } from './ort-step-model.js'
import { TokenStream } from './random.js'
import { SessionFactory } from './sessions.js'
import { SessionPool } from './session-pool.js'
import { rowSpans } from './step-tensors.js'

let runtime: Runtime
beforeAll(async () => {
  runtime = await createRuntime({ threads: 2 })
})
afterAll(() => runtime.dispose())

const SLOTS = 16
const ROWS = 3
const STEPS = 8

const ADAPTER = { rank: 4, alpha: 8, targets: LINEAR_NAMES }

/** A model in company: another loop steps all the time, so that strides are worth their graph. */
async function setUp(name: string, trained: 'full' | 'adapter' = 'full') {
  const { config, folder, weights } = await loadFixture(name)
  const base = new Map(
    [...weights].map(([weight, data]) => [
      weight,
      runtime.tensor('float32', data.slice(), folder.tensors.get(weight)!.shape),
    ]),
  )
  const tensors = new Map(
    loraWeights(config, ADAPTER).map(({ name: matrix, shape }, n) => {
      const tensor = runtime.allocate('float32', shape)
      tensor.data!.forEach((_, i) => (tensor.data![i] = Math.sin(n + i) / 8))
      return [matrix, tensor]
    }),
  )
  const pool = new SessionPool({ concurrent: true })
  const other = {}
  pool.company.enter(other)
  const sessions = new SessionFactory({
    runtime,
    config,
    weights: { base, ...(trained === 'adapter' && { adapter: { options: ADAPTER, tensors } }) },
    trained: trained === 'full',
    packing: trained === 'full' ? 'none' : 'packed',
    threads: 1,
    pool,
  })
  const model = new OrtStepModel({ runtime, config, sessions, slots: SLOTS, contextLength: 128 })
  await model.prepare(0)
  return { model, pool, other }
}

/** Continues three prompts of different lengths, [row][token and probability], in calls of so many steps that advance `used` rows. */
async function play(model: OrtStepModel, { used, steps }: { readonly used: number; readonly steps: number }) {
  const { rows } = model
  for (let row = 0; row < ROWS; row++) {
    const prompt = Int32Array.from({ length: 2 + 5 * row }, (_, t) => 1 + t + row)
    model.reserve(prompt.length)
    model.load(row, await model.prefill(prompt))
    rows.token[row] = prompt.at(-1)!
    rows.position[row] = prompt.length - 1
  }
  const streams = Array.from({ length: ROWS }, (_, row) => new TokenStream(7, row))
  const drawn: [number, number][][] = streams.map(() => [])
  for (let made = 0; made < STEPS; made += steps) {
    streams.forEach((stream, row) => {
      for (let n = 0; n < steps; n++) stream.draw(made + n, rows.uniform, 2 * (row * steps + n))
    })
    model.reserve(24)
    await model.step('plain', { used, steps })
    for (let row = 0; row < ROWS; row++) {
      for (let n = 0; n < steps; n++)
        drawn[row]!.push([rows.drawn[row * steps + n]!, rows.probability[row * steps + n]!])
      rows.token[row] = drawn[row]!.at(-1)![0]
      rows.position[row]! += steps
    }
  }
  return drawn
}

/** Steps until strides are worth their graph, and waits for it. */
async function playLong(model: OrtStepModel) {
  for (let n = 0; n < 130; n++) await model.step('plain', { used: 1, steps: 1 })
  await expect.poll(() => model.stride, { timeout: 20_000 }).toBe(4)
}

describe.each(FIXTURES)('%s', (name) => {
  it.each(['full', 'adapter'] as const)(
    'draws the same, to the bit, whatever rows go along, and in strides: %s',
    async (trained) => {
      const { model } = await setUp(name, trained)
      const all = await play(model, { used: SLOTS, steps: 1 })
      expect(all.flat().every(([, probability]) => probability > 0)).toBe(true)
      expect(await play(model, { used: ROWS, steps: 1 })).toEqual(all)
      await playLong(model)
      expect(await play(model, { used: ROWS, steps: model.stride })).toEqual(all)
      expect(await play(model, { used: SLOTS, steps: model.stride })).toEqual(all)
      model.rest()
      await model.dispose()
    },
  )
})

it('has the graph of strides made when a step after the 128th comes', async () => {
  const { model, pool } = await setUp('qwen2')
  const graphs = vi.spyOn(pool, 'model')
  const names = () => graphs.mock.calls.map(([name]) => name)
  for (let n = 0; n < 128; n++) await model.step('plain', { used: 1, steps: 1 })
  expect(names()).not.toContain('stride')
  await model.step('plain', { used: 1, steps: 1 })
  expect(names()).toContain('stride')
  model.rest()
  await model.dispose()
})

it('makes no strides where no other loop goes on, nor after a release', async () => {
  const { model, pool, other } = await setUp('qwen2')
  await play(model, { used: ROWS, steps: 1 })
  expect(model.stride).toBe(1)
  await playLong(model)
  pool.company.leave(other)
  expect(model.stride).toBe(1)
  pool.company.enter(other)
  expect(model.stride).toBe(4)
  await model.release()
  expect(model.stride).toBe(1)
  await model.dispose()
})

it('goes on in single steps, and says why, where there can be no strides', async () => {
  const { model, pool } = await setUp('qwen2')
  pool.acquire = async () => {
    throw new Error('no memory')
  }
  const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
  for (let n = 0; n < 300; n++) {
    await model.step('plain', { used: ROWS, steps: 1 })
    if (n % 50 === 0) await new Promise(setImmediate)
  }
  expect(model.stride).toBe(1)
  expect(warned.mock.calls).toEqual([
    [expect.stringContaining('single steps, which take longer beside others: no memory')],
  ])
  warned.mockRestore()
  await model.dispose()
})

it('leaves no session behind where one of its first cannot be made', async () => {
  const { model, pool } = await setUp('qwen2')
  await model.release()
  const acquire = pool.acquire.bind(pool)
  let made = 0
  let left = 0
  pool.acquire = async (graph, make) => {
    if (made++ === 0) throw new Error('no memory')
    const session = await acquire(graph, make)
    return { ...session, dispose: () => (left++, session.dispose()) }
  }
  await expect(model.prepare(1)).rejects.toThrow('no memory')
  await model.dispose()
  expect([made, left]).toEqual([2, 1])
})

it('keeps what a row holds when it is moved, and when the cache grows', async () => {
  const { model } = await setUp('llama3')
  const { rows } = model
  const prompt = Int32Array.of(3, 1, 4, 1, 5, 9, 2, 6)
  const draw = async (slot: number, used: number) => {
    new TokenStream(3, 0).draw(0, rows.uniform, 2 * slot)
    rows.token[slot] = prompt.at(-1)!
    rows.position[slot] = prompt.length - 1
    await model.step('plain', { used, steps: 1 })
    return [rows.drawn[slot], rows.probability[slot]]
  }
  model.reserve(prompt.length)
  model.load(9, await model.prefill(prompt))
  const before = await draw(9, SLOTS)
  rows.position[9] = prompt.length - 1
  model.move(9, 2)
  expect(await draw(2, ROWS)).toEqual(before)
  model.reserve(100)
  expect(await draw(2, ROWS)).toEqual(before)
  model.load(5, await model.prefill(Int32Array.of(7, 7, 7)))
  expect(await draw(2, SLOTS)).toEqual(before)
  await model.dispose()
})

it('advances half of the rows, and half of them, but no fewer than four', () => {
  expect([1, 3, 4, 8, 10, 16, 64].map(rowSpans)).toEqual([
    [1],
    [3],
    [4],
    [4, 8],
    [5, 10],
    [4, 8, 16],
    [4, 8, 16, 32, 64],
  ])
})
