import { mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { InvalidInputError } from '@selfplay/engine'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { graph } from '../graph/index.js'
import { createRuntime, type Runtime, type Tensor } from './index.js'

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

test('shared memory is read by the native runtime and refused by the binding', async () => {
  const x = () => new Float32Array(new SharedArrayBuffer(12)).fill(3)
  const outcomes = []
  for (const kind of ['native', 'binding'] as const) {
    const runtime = await createRuntime({ kind, threads: 1 })
    const session = await runtime.createSession(sum())
    const shared = runtime.tensor('float32', x(), [1, 3])
    outcomes.push(
      await session.run({ x: shared, y: shared }, { z: null }).then(
        ({ z }) => z!.data![2],
        (error: Error) => error.message,
      ),
    )
    await runtime.dispose()
  }
  expect(outcomes).toEqual([6, expect.stringContaining('lies in a SharedArrayBuffer')])
})
