import { DisposedError } from '@selfplay/engine'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { loadFixture, type Fixture } from '../models/testing/fixtures.js'
import { graph } from '../graph/index.js'
import { createRuntime, type BoundRun, type Runtime } from '../runtime/index.js'
import { createEngine } from './create.js'
import type { GenerationEngine } from './engine.js'
import { SessionPool } from './session-pool.js'

let runtime: Runtime
beforeAll(async () => {
  runtime = await createRuntime({ threads: 1 })
})
afterAll(() => runtime.dispose())

/** The weights of a fixture times a number. */
const scaled = (on: Runtime, { weights, folder }: Fixture, scale: number) =>
  new Map(
    [...weights].map(([name, data]) => {
      const values = data.map((value) => scale * value)
      return [name, on.tensor('float32', values, folder.tensors.get(name)!.shape)]
    }),
  )

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

it.each([
  ['plain', {}],
  ['greedy', { temperature: 0 }],
  ['filtered', { topK: 9 }],
])('gives engines that share it the tokens that each draws alone: %s', async (_, kind) => {
  const { config, folder } = await loadFixture('qwen2')
  const weights = new Map([...folder.tensors.keys()].map((name) => [name, folder.file(name)!]))
  const draw = async (engines: number, pool?: SessionPool) => {
    const made = Array.from({ length: engines }, () =>
      createEngine({ runtime, config, weights, slots: 2, maxLength: 32, packing: 'packed', ...(pool && { pool }) }),
    )
    const request = (seed: number) => ({
      prompt: Int32Array.of(5, 6, 7 + seed),
      numSamples: 3,
      maxTokens: 20,
      seed,
      stop: [],
      ...kind,
    })
    const all = await Promise.all(made.map((engine, i) => engine.sample(request(i))))
    await Promise.all(made.map((engine) => engine.dispose()))
    return all.map((sequences) => sequences.map(({ tokens }) => [...tokens]))
  }
  const shared = await draw(2, new SessionPool())
  expect(shared).toEqual(await draw(2))
  expect(shared[0]).not.toEqual(shared[1])
})

it.each(['native', 'binding'] as const)('lets two engines sample side by side for long: %s', async (kind) => {
  const fixture = await loadFixture('qwen2')
  const { config } = fixture
  const own = await createRuntime({ threads: 2, kind })
  const options = { runtime: own, config, trained: true, packing: 'none', slots: 8 } as const
  const pool = new SessionPool({ concurrent: true })
  const open = (scale: number, shared?: SessionPool) =>
    createEngine({ ...options, weights: scaled(own, fixture, scale), ...(shared && { pool: shared }) })
  const request = (seed: number) => ({
    prompt: Int32Array.from({ length: 3 + 40 * (seed % 2) }, (_, t) => 3 + t),
    numSamples: 12,
    maxTokens: 90,
    stop: [1, 2],
    seed,
  })
  const [one, other] = [open(1, pool), open(1.1, pool)]
  const together = []
  for (const seed of [1, 2, 3]) {
    together.push(...(await Promise.all([one.sample(request(seed)), other.sample(request(seed + 1))])))
  }
  const apart = []
  for (const seed of [1, 2, 3]) {
    for (const [scale, at] of [
      [1, seed],
      [1.1, seed + 1],
    ] as const) {
      const engine = open(scale)
      apart.push(await engine.sample(request(at)))
      await engine.dispose()
    }
  }
  expect(together).toEqual(apart)
  expect(pool.company.size).toBe(0)
  await Promise.all([one.dispose(), other.dispose()])
  await own.dispose()
})

it('feeds weights that change, so that engines on different ones share sessions', async () => {
  const fixture = await loadFixture('qwen2')
  const { config } = fixture
  const open = (scale: number, pool?: SessionPool) => {
    let version = 0
    const own = scaled(runtime, fixture, scale)
    const options = { runtime, config, slots: 2, maxLength: 32, trained: true, ...(pool && { pool }) }
    const engine = createEngine({ ...options, weights: own, version: () => version })
    const step = () => {
      version++
      for (const { data } of own.values()) data!.forEach((value, i) => (data![i] = 1.5 * value))
    }
    return { engine, step }
  }
  const play = async ({ engine, step }: ReturnType<typeof open>) => {
    const request = { prompt: Int32Array.of(5, 6, 7), numSamples: 3, maxTokens: 9, seed: 1 }
    const found = []
    for (const temperature of [1, 0]) {
      found.push(await engine.sample({ ...request, temperature }), await engine.sample({ ...request, topK: 5 }))
      found.push(await engine.logprobs(Int32Array.of(5, 6, 7, 8)))
      step()
    }
    await engine.dispose()
    return found
  }
  const pool = new SessionPool({ concurrent: true })
  let made = 0
  const create = runtime.createSession.bind(runtime)
  runtime.createSession = (...args) => {
    made++
    return create(...args)
  }
  const shared = await Promise.all([1, 0.5].map((scale) => play(open(scale, pool))))
  const ofTwo = made
  made = 0
  const alone = []
  for (const scale of [1, 0.5]) alone.push(await play(open(scale)))
  runtime.createSession = create
  expect(shared).toEqual(alone)
  expect(shared[0]).not.toEqual(shared[1])
  expect(made).toBe(2 * ofTwo)
})

it.each(['release', 'dispose'] as const)(
  '%s of an engine leaves nothing of its own in shared sessions',
  async (end) => {
    const { config, folder } = await loadFixture('qwen2')
    const weights = new Map([...folder.tensors.keys()].map((name) => [name, folder.file(name)!]))
    const bound = new Set<BoundRun>()
    const create = runtime.createSession.bind(runtime)
    runtime.createSession = async (...args) => {
      const session = await create(...args)
      const bind = session.bind.bind(session)
      session.bind = (inputs, outputs) => {
        const made = bind(inputs, outputs)
        bound.add(made)
        const dispose = made.dispose.bind(made)
        made.dispose = () => {
          bound.delete(made)
          dispose()
        }
        return made
      }
      return session
    }
    const pool = new SessionPool()
    const [leaving, staying] = [0, 1].map(() =>
      createEngine({ runtime, config, weights, slots: 2, maxLength: 32, packing: 'packed', pool }),
    )
    const play = async (engine: GenerationEngine) => {
      const request = { prompt: Int32Array.of(5, 6, 7), maxTokens: 3, seed: 1 }
      await engine.sample({ ...request, temperature: 0 })
      await engine.sample({ ...request, topK: 5 })
      return bound.size
    }
    const ofOne = await play(leaving!)
    expect(ofOne).toBeGreaterThan(2)
    expect(await play(staying!)).toBe(2 * ofOne)
    await leaving![end]()
    expect(bound.size).toBe(ofOne)
    await Promise.all([leaving, staying].map((engine) => engine!.dispose()))
    expect(bound.size).toBe(0)
    runtime.createSession = create
  },
)
