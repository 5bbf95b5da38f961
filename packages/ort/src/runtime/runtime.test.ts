import { DisposedError } from '@selfplay/engine'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type DType, graph, type SerialisedModel } from '../graph/index.js'
import { createRuntime, type HostArrays, type Runtime, type Tensor } from './index.js'

// Both runtimes pass the same suite.

const sum = () => {
  const g = graph()
  return g.outputs({ z: g.add(g.input('x', 'float32', ['batch', 3]), g.input('y', 'float32', ['batch', 3])) })
}

describe.each(['native', 'binding'] as const)('%s runtime', (kind) => {
  let runtime: Runtime
  beforeAll(async () => {
    runtime = await createRuntime({ kind, threads: 2 })
  })
  afterAll(() => runtime.dispose())

  const f32 = (values: readonly number[], dims: readonly number[] = [values.length]) =>
    runtime.tensor('float32', Float32Array.from(values), dims)
  const numbers = (tensor: Tensor | undefined) => Array.from(tensor!.data as ArrayLike<number | bigint>, Number)

  /** Runs a graph once, all outputs allocated by the runtime. */
  async function once(model: SerialisedModel, inputs: Record<string, Tensor>): Promise<Record<string, Tensor>> {
    const session = await runtime.createSession(model)
    try {
      return await session.run(inputs, Object.fromEntries(model.outputs.map(({ name }) => [name, null])))
    } finally {
      await session.dispose()
    }
  }

  test('says what it is', () => {
    expect(runtime).toMatchObject({ kind, provider: 'cpu', threads: 2, inPlace: true, fallbackReason: undefined })
    expect(runtime.version).toMatch(/^1\.30\./)
  })

  describe('runs', () => {
    test('write given outputs in place and allocate the others', async () => {
      const g = graph()
      const x = g.input('x', 'float32', ['batch', 2])
      const model = g.outputs({ double: g.mul(x, 2), square: g.square(x), unused: g.neg(x) })
      const session = await runtime.createSession(model)
      const double = runtime.allocate('float32', [3, 2])
      const result = await session.run({ x: f32([1, 2, 3, 4, 5, 6], [3, 2]) }, { square: null, double })
      expect(result['double']).toBe(double)
      expect(numbers(double)).toEqual([2, 4, 6, 8, 10, 12])
      expect(numbers(result['square'])).toEqual([1, 4, 9, 16, 25, 36])
      expect(result['square']!.dims).toEqual([3, 2])
      expect(Object.keys(result)).toEqual(['square', 'double'])
      await session.dispose()
    })

    test('take every dtype', async () => {
      const values: Partial<HostArrays> = {
        float64: Float64Array.of(1.5, -2),
        float16: Uint16Array.of(0x3e00, 0xc000),
        int32: Int32Array.of(7, -7),
        int64: BigInt64Array.of(2n ** 53n + 1n, -3n),
        bool: Uint8Array.of(1, 0),
        uint8: Uint8Array.of(200, 0),
      }
      const expected: Record<string, number[]> = { float64: [1.5, -2], float16: [1.5, -2], int32: [7, -7] }
      Object.assign(expected, { int64: [2 ** 53, -3], bool: [1, 0], uint8: [200, 0] })
      for (const [dtype, data] of Object.entries(values) as [DType, HostArrays[DType]][]) {
        const g = graph()
        const x = g.input('x', dtype, ['n'])
        const out = await once(g.outputs({ same: g.identity(x), real: g.cast(x, 'float32') }), {
          x: runtime.tensor(dtype, data, [2]),
        })
        expect([dtype, ...out['same']!.data!]).toEqual([dtype, ...data])
        expect([dtype, ...numbers(out['real'])]).toEqual([dtype, ...expected[dtype]!])
      }
    })

    test('take scalars and tensors without elements', async () => {
      const g = graph()
      const model = g.outputs({ y: g.mul(g.input('x', 'float32', ['n', 2]), g.input('rate', 'float32', [])) })
      const out = await once(model, { x: f32([1, 2], [1, 2]), rate: f32([3], []) })
      expect(numbers(out['y'])).toEqual([3, 6])
      const none = await once(model, { x: runtime.allocate('float32', [0, 2]), rate: f32([3], []) })
      expect(none['y']).toMatchObject({ dims: [0, 2], size: 0 })
      const session = await runtime.createSession(model)
      const given = runtime.tensor('float32', new Float32Array(0), [0, 2])
      await session.run({ x: given, rate: f32([3], []) }, { y: runtime.allocate('float32', [0, 2]) })
      await session.dispose()
    })

    test('read and write views', async () => {
      const session = await runtime.createSession(sum())
      const all = f32([0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0], [4, 3])
      const rows = (from: number, count: number) => runtime.view(all, from * 3, [count, 3])
      await session.run({ x: rows(0, 1), y: rows(2, 1) }, { z: rows(3, 1) })
      expect(numbers(all).slice(6)).toEqual([6, 7, 8, 6, 8, 10])
      await session.dispose()
    })

    test('update in place where the graph is elementwise', async () => {
      const g = graph()
      const w = g.parameter('w', 'float32', ['n'])
      const m = g.parameter('m', 'float32', ['n'])
      const grad = g.input('grad', 'float32', ['n'])
      const m2 = g.add(g.mul(m, 0.5), grad)
      const session = await runtime.createSession(
        g.outputs({ m2, w2: g.sub(w, g.mul(m2, g.input('rate', 'float32', []))) }),
      )
      const n = 100_000
      const tensors = { w: runtime.allocate('float32', [n]), m: runtime.allocate('float32', [n]) }
      const bound = session.bind(
        { ...tensors, grad: f32(Array.from({ length: n }, (_, i) => i % 5)), rate: f32([0.25], []) },
        { w2: tensors.w, m2: tensors.m },
      )
      await bound.run()
      bound.runSync()
      expect(numbers(tensors.m).slice(0, 5)).toEqual([0, 1.5, 3, 4.5, 6])
      expect(numbers(tensors.w).slice(-5)).toEqual([0, -0.625, -1.25, -1.875, -2.5])
      bound.dispose()
      await session.dispose()
    })

    test('see what changed in the tensors between two runs of a binding', async () => {
      const session = await runtime.createSession(sum())
      const x = f32([1, 2, 3], [1, 3])
      const z = runtime.allocate('float32', [1, 3])
      const bound = session.bind({ x, y: x }, { z })
      bound.runSync()
      await x.write(Float32Array.of(10, 20, 30))
      await bound.run()
      expect(numbers(z)).toEqual([20, 40, 60])
      bound.dispose()
      bound.dispose()
      await expect(bound.run()).rejects.toThrow(DisposedError)
      expect(() => bound.runSync()).toThrow(DisposedError)
      await session.dispose()
    })

    test('bind anew at once: a binding that nothing runs is gone when it is disposed', async () => {
      const session = await runtime.createSession(sum())
      const z = runtime.allocate('float32', [1, 3])
      for (const values of [
        [1, 2, 3],
        [4, 5, 6],
      ]) {
        const x = f32(values, [1, 3])
        const bound = session.bind({ x, y: x }, { z })
        bound.runSync()
        expect(numbers(z)).toEqual(values.map((value) => 2 * value))
        bound.dispose()
        x.dispose()
        expect(() => x.data).toThrow(DisposedError)
      }
      await session.dispose()
    })

    test('find the sizes of shape inputs, also behind products', async () => {
      const g = graph()
      const flat = g.input('flat', 'float32', ['batch*seq', 2])
      const lengths = g.input('lengths', 'int32', ['batch'])
      const cube = g.reshape(flat, ['batch', 'seq', 2])
      const model = g.outputs({ cube, padded: g.expand(g.cast(lengths, 'float32'), ['2*seq', 'batch']) })
      expect(model.shapeInputs.length).toBeGreaterThan(0)
      const session = await runtime.createSession(model)
      const feed = (batch: number, seq: number) => ({
        flat: f32(
          Array.from({ length: batch * seq * 2 }, (_, i) => i),
          [batch * seq, 2],
        ),
        lengths: runtime.allocate('int32', [batch]),
      })
      const out = await session.run(feed(3, 4), { cube: null, padded: null })
      expect(out['cube']!.dims).toEqual([3, 4, 2])
      expect(out['padded']!.dims).toEqual([8, 3])
      // Queued together, each run still has its own sizes.
      const [a, b] = await Promise.all([
        session.run(feed(1, 5), { cube: null }),
        session.run(feed(2, 3), { cube: null }),
      ])
      expect([a!['cube']!.dims, b!['cube']!.dims]).toEqual([
        [1, 5, 2],
        [2, 3, 2],
      ])
      const cube2 = runtime.allocate('float32', [2, 3, 2])
      const bound = session.bind(feed(2, 3), { cube: cube2 })
      await session.run(feed(3, 4), { cube: null })
      await bound.run()
      expect(numbers(cube2)).toEqual(Array.from({ length: 12 }, (_, i) => i))
      await expect(
        session.run({ ...feed(1, 1), [model.shapeInputs[0]!.name]: f32([1]) }, { cube: null }),
      ).rejects.toThrow('is a shape input: the runtime fills it in')
      await session.dispose()
    })

    test('allocate outputs whose size only the run tells', async () => {
      const g = graph()
      const parts = [g.input('a', 'float32', ['m', 2]), g.input('b', 'float32', ['n', 2])]
      const model = g.outputs({ joined: g.concat(parts, { axis: 0, size: 'total' }) })
      const out = await once(model, { a: f32([1, 2], [1, 2]), b: f32([3, 4, 5, 6], [2, 2]) })
      expect(out['joined']!.dims).toEqual([3, 2])
      expect(numbers(out['joined'])).toEqual([1, 2, 3, 4, 5, 6])
      const empty = await once(model, {
        a: runtime.allocate('float32', [0, 2]),
        b: runtime.allocate('float32', [0, 2]),
      })
      expect(empty['joined']!.dims).toEqual([0, 2])
    })

    test('of one session happen in order', async () => {
      const session = await runtime.createSession(sum())
      const x = f32([1, 1, 1], [1, 3])
      const total = runtime.allocate('float32', [1, 3])
      await Promise.all(Array.from({ length: 50 }, () => session.run({ x, y: total }, { z: total })))
      expect(numbers(total)).toEqual([50, 50, 50])
      await session.dispose()
    })

    test('keep disposed tensors until they end', async () => {
      const session = await runtime.createSession(sum())
      const x = runtime.allocate('float32', [50_000, 3])
      const z = runtime.allocate('float32', [50_000, 3])
      x.data!.fill(2)
      const running = session.run({ x, y: x }, { z })
      x.dispose()
      expect(() => x.data).toThrow(DisposedError)
      await running
      expect(z.data![149_999]).toBe(4)
      await expect(session.run({ x, y: z }, { z })).rejects.toThrow(/float32 tensor \[50000, 3\] was disposed/)
      await session.dispose()
    })
  })

  describe('aborting', () => {
    test('before a run and while it waits', async () => {
      const session = await runtime.createSession(sum())
      const x = f32([1, 1, 1], [1, 3])
      const z = runtime.allocate('float32', [1, 3])
      const aborted = { signal: AbortSignal.abort(new Error('stop')) }
      await expect(session.run({ x, y: x }, { z }, aborted)).rejects.toThrow('stop')
      const bound = session.bind({ x, y: x }, { z })
      await expect(bound.run(aborted)).rejects.toThrow('stop')
      expect(numbers(z)).toEqual([0, 0, 0])
      const controller = new AbortController()
      const first = bound.run()
      const second = session.run({ x, y: x }, { z: null }, controller)
      const third = bound.run(controller)
      controller.abort(new Error('late'))
      await expect(second).rejects.toThrow('late')
      await expect(third).rejects.toThrow('late')
      await first
      await bound.run({ signal: new AbortController().signal })
      await session.dispose()
    })

    test('disposing waits for what was started and refuses what comes after', async () => {
      const session = await runtime.createSession(sum())
      const x = f32([1, 1, 1], [1, 3])
      const z = runtime.allocate('float32', [1, 3])
      const bound = session.bind({ x, y: x }, { z })
      const running = [bound.run(), session.run({ x, y: x }, { z })]
      const disposed = session.dispose()
      expect(() => session.bind({ x, y: x }, { z })).toThrow(DisposedError)
      await expect(session.run({ x, y: x }, { z })).rejects.toThrow(DisposedError)
      await expect(bound.run()).rejects.toThrow(DisposedError)
      await Promise.all(running)
      await disposed
      await session.dispose()
      expect(numbers(z)).toEqual([2, 2, 2])
    })

    test('a blocking run does not cut in', async () => {
      const session = await runtime.createSession(sum())
      const x = f32([1, 1, 1], [1, 3])
      const bound = session.bind({ x, y: x }, { z: runtime.allocate('float32', [1, 3]) })
      const running = bound.run()
      expect(() => bound.runSync()).toThrow('in flight')
      await running
      bound.runSync()
      await session.dispose()
    })

    test('of a concurrent session overlap, but not those of one bound run', async () => {
      const session = await runtime.createSession(sum(), { concurrent: true })
      const many = (value: number, count: number) => Array.from({ length: count }, () => value)
      const rows = (value: number, count: number) => f32(many(value, 3 * count), [count, 3])
      const jobs = Array.from({ length: 6 }, (_, i) => ({ x: rows(i, i + 1), y: rows(10, i + 1) }))
      const found = await Promise.all(jobs.map((inputs) => session.run(inputs, { z: null })))
      found.forEach(({ z }, i) => expect(numbers(z)).toEqual(many(10 + i, 3 * (i + 1))))

      const [first, second] = jobs.map((inputs, i) => {
        const z = runtime.allocate('float32', [i + 1, 3])
        return { z, bound: session.bind(inputs, { z }) }
      })
      const running = first!.bound.run()
      if (kind === 'native') second!.bound.runSync()
      expect(() => first!.bound.runSync()).toThrow('in flight')
      const aborted = session.run(jobs[2]!, { z: null }, { signal: AbortSignal.abort(new Error('enough')) })
      await expect(aborted).rejects.toThrow('enough')
      const late = session.run(jobs[3]!, { z: null }, { signal: new AbortController().signal })
      const disposed = session.dispose()
      await expect(session.run(jobs[0]!, { z: null })).rejects.toThrow(DisposedError)
      expect(numbers((await late)['z'])).toEqual(many(13, 12))
      await running
      await disposed
      expect(numbers(first!.z)).toEqual([10, 10, 10])
    })
  })
})
