import { mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DisposedError, InvalidInputError } from '@selfplay/engine'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type DType, graph, type SerialisedModel } from '../graph/index.js'
import { createRuntime, type HostArrays, type Runtime, RuntimeError, type Tensor } from './index.js'

// Both runtimes pass the same suite.

const folder = mkdtempSync(join(tmpdir(), 'selfplay-runtime-'))
afterAll(() => rmSync(folder, { recursive: true }))

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
  })

  describe('bad input', () => {
    test('is refused with the name, what was expected and what came', async () => {
      const session = await runtime.createSession(sum())
      const x = f32([1, 2, 3], [1, 3])
      const cases: [Record<string, Tensor>, Record<string, Tensor | null>, string][] = [
        [{ x }, { z: null }, 'input "y" is missing, got: x'],
        [{ x, yy: x }, { z: null }, 'input "y" is missing, got: x, yy (it came as, perhaps, "yy"?)'],
        [{ x, y: x, extra: x }, { z: null }, 'the graph has no input "extra"'],
        [{ x, y: x }, { zz: null }, 'the graph has no output "zz" (did you mean "z"?)'],
        [{ x, y: x }, {}, 'must name at least one output'],
        [{ x, y: runtime.allocate('int32', [1, 3]) }, { z: null }, 'input "y": expected float32, got int32'],
        [{ x, y: f32([1, 2, 3]) }, { z: null }, 'input "y": expected shape [batch, 3], got [3] (rank 1)'],
        [{ x, y: f32([1, 2], [1, 2]) }, { z: null }, 'input "y": axis 1 is 3, expected 3, got 2'],
        [
          { x, y: runtime.allocate('float32', [2, 3]) },
          { z: null },
          'expected 1 (batch = 1 from axis 0 of input "x"), got 2',
        ],
        [{ x, y: x }, { z: runtime.allocate('float32', [4, 3]) }, 'output "z": axis 0 is "batch", expected 1'],
        [{ x, y: x }, { z: runtime.allocate('float64', [1, 3]) }, 'output "z": expected float32, got float64'],
        [{ x, y: { dims: [1, 3] } as never }, { z: null }, 'input "y": expected a tensor made by'],
      ]
      for (const [inputs, outputs, message] of cases) {
        const error = await session.run(inputs, outputs).catch((reason: unknown) => reason)
        expect(error).toBeInstanceOf(InvalidInputError)
        expect((error as Error).message).toContain(message)
      }
      expect(() => session.bind({ x, y: x }, { z: null as never })).toThrow('output "z": expected a tensor, got null')
      await session.dispose()
    })

    test("what onnxruntime itself refuses comes with onnxruntime's words", async () => {
      const g = graph()
      const model = g.outputs({ y: g.gather(g.input('x', 'float32', [3]), g.input('i', 'int32', ['n'])) })
      const session = await runtime.createSession(model)
      const i = runtime.tensor('int32', Int32Array.of(1, 9), [2])
      const error = await session.run({ x: f32([1, 2, 3]), i }, { y: null }).catch((reason: unknown) => reason)
      expect(error).toBeInstanceOf(RuntimeError)
      expect(error).toMatchObject({
        code: 'runtime',
        message: expect.stringMatching(/indices element out of data bounds/),
      })
      await session.dispose()
      const broken = { ...model, bytes: model.bytes.slice(0, -10) }
      await expect(runtime.createSession(broken)).rejects.toThrow(RuntimeError)
    })

    test('options are checked', async () => {
      const create = (options: object) => runtime.createSession(sum(), options)
      await expect(create({ thread: 2 })).rejects.toThrow('unknown option "thread" (did you mean "threads"?)')
      await expect(create({ threads: 0 })).rejects.toThrow('threads must be an integer >= 1, got 0')
      await expect(create({ packing: 'all' })).rejects.toThrow('packing must be one of none, own, a container')
      await expect(create({ packing: { dispose() {} } })).rejects.toThrow(InvalidInputError)
      await expect(create({ optimisation: 'some' })).rejects.toThrow('optimisation must be one of all, none, got some')
      await expect(create({ arena: 'grow' })).rejects.toThrow('arena must be one of')
    })

    test('a runtime that was disposed makes nothing more', async () => {
      const other = await createRuntime({ kind })
      const session = await other.createSession(sum())
      await other.dispose()
      await expect(session.run({}, {})).rejects.toThrow(DisposedError)
      await expect(other.createSession(sum())).rejects.toThrow(DisposedError)
      expect(() => other.packedWeights()).toThrow(DisposedError)
    })
  })

  describe('options', () => {
    test('none changes the numbers', async () => {
      const x = f32([1, 2, 3], [1, 3])
      const all = { threads: 1, optimisation: 'none', arena: false, spin: true, packing: 'own' } as const
      for (const options of [all, { arena: 'shrink' } as const, { disabledOptimisers: ['ConstantFolding'] }]) {
        const session = await runtime.createSession(sum(), options)
        expect(numbers((await session.run({ x, y: x }, { z: null }))['z'])).toEqual([2, 4, 6])
        await session.dispose()
      }
    })

    test('disabledOptimisers keeps repeated work apart', async () => {
      const g = graph()
      const x = g.input('x', 'float32', [256, 256])
      const repeats = Array.from({ length: 12 }, () => g.matmul(x, g.tanh(x)))
      const model = g.outputs({ y: repeats.reduce((a, b) => g.add(a, b)) })
      const inputs = { x: runtime.allocate('float32', [256, 256]) }
      const time = async (options: object) => {
        const session = await runtime.createSession(model, { threads: 1, ...options })
        const bound = session.bind(inputs, { y: runtime.allocate('float32', [256, 256]) })
        const times = Array.from({ length: 7 }, () => {
          const start = performance.now()
          bound.runSync()
          return performance.now() - start
        })
        await session.dispose()
        return Math.min(...times)
      }
      const merged = await time({})
      const repeated = await time({ disabledOptimisers: ['CommonSubexpressionElimination'] })
      expect(repeated / merged).toBeGreaterThan(3)
    })
  })

  describe('weights', () => {
    /** y = x w + b, with a transposed weight and one that only an elementwise op reads. */
    function model(file?: (offset: number, length: number) => { path: string; offset: number; length: number }) {
      const g = graph()
      const x = g.input('x', 'float32', ['batch', 2])
      const w = g.weight('w', 'float32', [2, 2], file?.(8, 16))
      const t = g.weight('t', 'float32', [2, 2], file?.(24, 16))
      const b = g.weight('b', 'float32', [2], file?.(0, 8))
      return g.outputs({ y: g.add(g.add(g.matmul(x, w), g.matmul(x, g.transpose(t, [1, 0]))), b) })
    }
    const tensors = () => ({ w: f32([1, 2, 3, 4], [2, 2]), t: f32([10, 20, 30, 40], [2, 2]), b: f32([100, 200]) })
    const x = () => f32([1, 1], [1, 2])
    const expected = [1 + 3 + 10 + 20 + 100, 2 + 4 + 30 + 40 + 200]

    test('given as tensors are read, whatever the packing', async () => {
      const container = runtime.packedWeights()
      for (const packing of ['none', 'own', container] as const) {
        const weights = tensors()
        const session = await runtime.createSession(model(), { packing, weights })
        expect(numbers((await session.run({ x: x() }, { y: null }))['y'])).toEqual(expected)
        await session.dispose()
      }
      container.dispose()
      const weights = tensors()
      await expect(runtime.createSession(model(), { packing: container, weights })).rejects.toThrow(InvalidInputError)
    })

    test('that are not packed are read in place at every run, until the session ends', async () => {
      const weights = tensors()
      const session = await runtime.createSession(model(), { weights })
      weights.w.data![0] = 2
      weights.t.data![0] = 20
      weights.b.data![0] = 0
      expect(numbers((await session.run({ x: x() }, { y: null }))['y'])[0]).toBe(2 + 3 + 20 + 20)
      weights.w.dispose()
      expect(numbers((await session.run({ x: x() }, { y: null }))['y'])[0]).toBe(2 + 3 + 20 + 20)
      await session.dispose()
    })

    test('given by path are read from their places, in one file or several', async () => {
      const bytes = Buffer.concat(
        [
          [100, 200],
          [1, 2, 3, 4],
          [10, 20, 30, 40],
        ].map((v) => Buffer.from(Float32Array.from(v).buffer)),
      )
      const one = join(folder, `${kind} one.bin`)
      writeFileSync(one, bytes)
      const several = (offset: number, length: number) => {
        const path = join(mkdtempSync(join(folder, 'part-')), 'wéight.bin')
        writeFileSync(path, Buffer.concat([Buffer.alloc(4), bytes.subarray(offset, offset + length)]))
        return { path, offset: 4, length }
      }
      for (const file of [(offset: number, length: number) => ({ path: one, offset, length }), several]) {
        for (const packing of ['none', 'own'] as const) {
          const session = await runtime.createSession(model(file), { packing })
          expect(numbers((await session.run({ x: x() }, { y: null }))['y'])).toEqual(expected)
          await session.dispose()
        }
      }
      // A tensor goes before the file.
      const session = await runtime.createSession(
        model((offset, length) => ({ path: one, offset, length })),
        {
          weights: { b: f32([0, 0]) },
        },
      )
      expect(numbers((await session.run({ x: x() }, { y: null }))['y'])[0]).toBe(expected[0]! - 100)
      await session.dispose()
    })

    test('that are missing or do not fit are refused by name', async () => {
      const { w, t, b } = tensors()
      const create = (weights: Record<string, Tensor>) => runtime.createSession(model(), { weights })
      await expect(create({ w, t })).rejects.toThrow('weight "b" (float32 [2]) has no file: give it')
      await expect(create({ w, t, b, c: b })).rejects.toThrow('no external weight "c"')
      await expect(create({ w, t, b: f32([1, 2], [2, 1]) })).rejects.toThrow(
        'weight "b": expected a float32 tensor [2], got a float32 tensor [2, 1]',
      )
      const path = join(folder, `${kind} short.bin`)
      const file = (offset: number, length: number) => ({ path, offset, length })
      await expect(runtime.createSession(model(file))).rejects.toThrow('cannot open the weight file')
      writeFileSync(path, Buffer.alloc(40))
      truncateSync(path, 30)
      await expect(runtime.createSession(model(file))).rejects.toThrow(/has 30 bytes, expected 16 from byte 24 on/)
      const wrong = (offset: number) => ({ path, offset, length: 4 })
      await expect(runtime.createSession(model(wrong))).rejects.toThrow('takes 16 bytes')
    })

    test('in bfloat16 are weights like others', async () => {
      const g = graph()
      const w = g.weight('w', 'bfloat16', [2])
      const session = await runtime.createSession(
        g.outputs({ y: g.mul(g.input('x', 'float32', [2]), g.cast(w, 'float32')) }),
        {
          weights: { w: runtime.tensor('bfloat16', Uint16Array.of(0x3fc0, 0xc000), [2]) },
        },
      )
      expect(numbers((await session.run({ x: f32([2, 2]) }, { y: null }))['y'])).toEqual([3, -4])
      await session.dispose()
    })
  })
})

test('both runtimes compute the same', async () => {
  const g = graph()
  const x = g.input('x', 'float32', ['batch', 64])
  const w = g.weight('w', 'float32', [64, 64])
  const h = g.tanh(g.matmul(x, w))
  const model = g.outputs({ y: g.softmax(g.matmul(h, g.transpose(w, [1, 0]))), loss: g.reduceMean(g.square(h)) })
  const results: Float32Array[] = []
  for (const kind of ['native', 'binding'] as const) {
    const runtime = await createRuntime({ kind, threads: 1 })
    const wave = (count: number) => Float32Array.from({ length: count }, (_, i) => Math.sin(i * i))
    const weights = { w: runtime.tensor('float32', wave(4096), [64, 64]) }
    const session = await runtime.createSession(model, { weights })
    const out = await session.run({ x: runtime.tensor('float32', wave(320), [5, 64]) }, { y: null, loss: null })
    results.push(Float32Array.of(...(out['y']!.data as Float32Array), ...(out['loss']!.data as Float32Array)))
    await runtime.dispose()
  }
  expect(results[0]).toEqual(results[1])
})
