import { DisposedError, InvalidInputError } from '@selfplay/engine'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { graph } from '../graph/index.js'
import { createRuntime, type Runtime, RuntimeError, type Tensor } from './index.js'

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
      await expect(create({ memoryPattern: 1 })).rejects.toThrow('memoryPattern must be one of')
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
      for (const options of [
        all,
        { arena: 'shrink' } as const,
        { memoryPattern: false },
        { disabledOptimisers: ['ConstantFolding'] },
      ]) {
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
})
