import { DisposedError } from '@selfplay/engine'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { loadFixture } from '../models/testing/fixtures.js'
import { graph } from '../graph/index.js'
import { createRuntime, type Runtime } from '../runtime/index.js'
import { createEngine } from './create.js'
import { SessionPool } from './session-pool.js'

let runtime: Runtime
beforeAll(async () => {
  runtime = await createRuntime({ threads: 1 })
})
afterAll(() => runtime.dispose())

function doubling(factor: number) {
  const g = graph({ providers: ['cpu'] })
  return g.outputs({ y: g.mul(g.input('x', 'float32', [2]), factor) })
}

it('makes equal graphs once, others apart, and goes on until the last user leaves', async () => {
  const pool = new SessionPool()
  let made = 0
  const open = (factor: number) => {
    const model = doubling(factor)
    return pool.acquire(model, () => {
      made++
      return runtime.createSession(model)
    })
  }
  const [first, second, other] = await Promise.all([open(2), open(2), open(3)])
  expect(made).toBe(2)
  const x = runtime.tensor('float32', Float32Array.of(1, 2), [2])
  await first.dispose()
  await first.dispose()
  expect((await second.run({ x }, { y: null })).y!.data).toEqual(Float32Array.of(2, 4))
  await second.dispose()
  await expect(second.run({ x }, { y: null })).rejects.toThrow(DisposedError)
  expect((await other.run({ x }, { y: null })).y!.data).toEqual(Float32Array.of(3, 6))
  await other.dispose()
  const again = await open(2)
  expect(made).toBe(3)
  await again.dispose()
})

it('does not keep a session that could not be made', async () => {
  const pool = new SessionPool()
  const model = doubling(2)
  await expect(pool.acquire(model, () => Promise.reject(new Error('no memory')))).rejects.toThrow('no memory')
  const session = await pool.acquire(model, () => runtime.createSession(model))
  await session.dispose()
})

it('gives engines that share it the tokens that each draws alone', async () => {
  const { config, folder } = await loadFixture('qwen2')
  const weights = new Map([...folder.tensors.keys()].map((name) => [name, folder.file(name)!]))
  const draw = async (engines: number, pool?: SessionPool) => {
    const made = Array.from({ length: engines }, () =>
      createEngine({ runtime, config, weights, slots: 2, maxLength: 32, packing: 'packed', ...(pool && { pool }) }),
    )
    const request = (seed: number) => ({ prompt: Int32Array.of(5, 6, 7), numSamples: 3, maxTokens: 9, seed })
    const all = await Promise.all(made.map((engine, i) => engine.sample(request(i))))
    await Promise.all(made.map((engine) => engine.dispose()))
    return all.map((sequences) => sequences.map(({ tokens }) => [...tokens]))
  }
  const shared = await draw(2, new SessionPool())
  expect(shared).toEqual(await draw(2))
  expect(shared[0]).not.toEqual(shared[1])
})
