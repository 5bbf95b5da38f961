import { describe, expect, test } from 'vitest'
import { graph, memoryLocation, toBfloat16, toFloat16 } from './index.js'
import { decodeModel } from './testing/decode.js'
import { runOnce } from './testing/run.js'

describe('a serialised graph', () => {
  test('reads back as it was built', () => {
    const g = graph()
    const x = g.input('x', 'float32', ['batch', 2, 3])
    const scale = g.parameter('scale', 'float32', [3])
    const frozen = g.weight('frozen', 'float16', [4, 2], { path: 'model.safetensors', offset: 128, length: 16 })
    const y = g.gelu(g.rmsNorm(g.transpose(x, [0, 1, 2]), scale, { epsilon: 0.25 }), { approximate: 'tanh' })
    const model = decodeModel(g.outputs({ y, half: g.identity(frozen) }).bytes)
    expect(model.irVersion).toBe(10)
    expect(model.opsets).toEqual([{ domain: '', version: 21 }])
    expect(model.inputs).toEqual([
      { name: 'x', dataType: 1, dims: ['batch', 2, 3] },
      { name: 'scale', dataType: 1, dims: [3] },
    ])
    expect(model.outputs).toEqual([
      { name: 'y', dataType: 1, dims: ['batch', 2, 3] },
      { name: 'half', dataType: 10, dims: [4, 2] },
    ])
    expect(model.nodes.map(({ op }) => op)).toEqual(['Transpose', 'SimplifiedLayerNormalization', 'Identity', 'Gelu'])
    expect(model.nodes[0]!.attributes).toEqual({ perm: [0, 1, 2] })
    expect(model.nodes[1]!.attributes).toEqual({ axis: 2, epsilon: 0.25, stash_type: 1 })
    // The statistics are left out, since nothing reads them.
    expect(model.nodes[1]!.outputs).toHaveLength(1)
    expect(model.nodes[3]!.attributes).toEqual({ approximate: 'tanh' })
    expect(model.nodes[3]!.outputs).toEqual(['y'])
    expect(model.initializers).toEqual([
      {
        name: 'frozen',
        dims: [4, 2],
        dataType: 10,
        raw: undefined,
        location: 1,
        external: { location: 'model.safetensors', offset: '128', length: '16' },
      },
    ])
  })

  test('names a conventional place for weights that come as memory', () => {
    const g = graph()
    const w = g.weight('w', 'float32', [2, 2])
    const model = g.outputs({ y: g.matmul(g.input('x', 'float32', [1, 2]), w) })
    expect(decodeModel(model.bytes).initializers[0]!.external).toEqual({
      location: memoryLocation,
      offset: '0',
      length: '16',
    })
    expect(model.weights).toEqual([{ name: 'w', dtype: 'float32', shape: [2, 2] }])
  })

  test('holds only what its outputs need', () => {
    const g = graph()
    const x = g.input('x', 'float32', ['n'])
    const y = g.input('y', 'float32', ['n'])
    g.weight('unused', 'float32', [1])
    const sum = g.add(x, 1)
    g.mul(y, 2)
    const model = g.outputs({ sum })
    expect(model.inputs.map(({ name }) => name)).toEqual(['x'])
    expect(decodeModel(model.bytes).nodes).toHaveLength(1)
    expect(model.weights).toEqual([])
  })

  test('puts nodes that no other reads last, the earliest at the very end', () => {
    const g = graph()
    const first = g.neg(g.input('x', 'float32', [2]))
    const early = g.exp(first)
    const second = g.abs(first)
    const model = g.outputs({ early, middle: g.sin(second), late: g.cos(g.sqrt(second)) })
    expect(decodeModel(model.bytes).nodes.map(({ op }) => op)).toEqual(['Neg', 'Abs', 'Sqrt', 'Cos', 'Sin', 'Exp'])
  })

  test('declares the contrib domain where it is used', () => {
    const g = graph()
    const model = decodeModel(g.outputs({ y: g.silu(g.input('x', 'float32', [2])) }).bytes)
    expect(model.opsets).toEqual([
      { domain: '', version: 21 },
      { domain: 'com.microsoft', version: 1 },
    ])
    expect(model.nodes[0]).toMatchObject({ op: 'QuickGelu', domain: 'com.microsoft', attributes: { alpha: 1 } })
  })

  test('may return inputs, constants and one value under two names', async () => {
    const g = graph()
    const x = g.input('x', 'float32', [2])
    const y = g.neg(x)
    const model = g.outputs({ a: y, b: y, same: x, three: g.constant(3, 'float32') })
    const result = await runOnce(model, { x: { dims: [2], data: [1, 2] } })
    expect(result['a']!.data).toEqual([-1, -2])
    expect(result['b']!.data).toEqual([-1, -2])
    expect(result['same']!.data).toEqual([1, 2])
    expect(result['three']).toEqual({ dims: [], data: [3] })
  })

  test('refuses outputs that it cannot name', () => {
    const g = graph()
    const x = g.input('x', 'float32', [2])
    expect(() => g.outputs({ x: g.neg(x) })).toThrow('an output cannot be called "x"')
    expect(() => g.outputs({})).toThrow('at least one output')
    expect(() => graph().outputs({ y: x })).toThrow('another graph')
  })

  test('an output may have the name that another value would have had', async () => {
    const g = graph()
    const first = g.neg(g.input('x', 'float32', [1]))
    const result = await runOnce(g.outputs({ [first.name]: g.exp(first) }), { x: { dims: [1], data: [0] } })
    expect(result[first.name]!.data).toEqual([1])
  })

  test('names that the caller gives never meet those that are made up', async () => {
    const g = graph()
    const made = [g.constant(2, 'float32'), g.neg(g.input('first', 'float32', ['n']))]
    const taken = ['constant_0', made[1]!.name, 'sizes:n', 'int64:[0'].map((name) => g.input(name, 'float32', ['n']))
    const sum = [...taken, ...made, g.full(['n'], 5, 'float32')].reduce((a, b) => g.add(a, b))
    const model = g.outputs({ total: g.reduceSum(sum, { axes: [0] }) })
    const fed = Object.fromEntries(model.inputs.map(({ name }) => [name, { dims: [2], data: [1, 1] }]))
    expect((await runOnce(model, fed))['total']!.data).toEqual([2 * (4 + 2 - 1 + 5)])
  })

  test('keeps beta of a Gemm without C, which tells equal ones apart', () => {
    const g = graph()
    const x = g.input('x', 'float32', [2, 2])
    const model = g.outputs({ a: g.gemm(x, x), b: g.gemm(x, x, undefined, { beta: 2 }) })
    expect(decodeModel(model.bytes).nodes.map(({ inputs, attributes }) => [inputs.length, attributes['beta']])).toEqual(
      [
        [2, 2],
        [2, 1],
      ],
    )
  })

  test('shapes become constants where 0 and -1 suffice, and inputs where not', async () => {
    const g = graph()
    const x = g.input('x', 'float32', ['b', 's', 6])
    const merged = g.reshape(x, ['b*s', 6])
    const kept = g.reshape(x, ['b', 's', 2, 3])
    const swapped = g.reshape(x, ['s', 'b', 6])
    const spread = g.expand(g.constant([1, 2], 'float32', [2, 1]), [2, 's'])
    const model = g.outputs({ merged, kept, swapped, spread })
    expect(model.shapeInputs.map(({ dims }) => dims)).toEqual([
      [2, 's'],
      ['s', 'b', 6],
    ])
    const data = Array.from({ length: 36 }, (_, i) => i)
    const result = await runOnce(model, { x: { dims: [2, 3, 6], data } })
    expect(Object.values(result).map(({ dims }) => dims)).toEqual([
      [6, 6],
      [2, 3, 2, 3],
      [3, 2, 6],
      [2, 3],
    ])
    expect(result['swapped']!.data).toEqual(data)
    expect(result['spread']!.data).toEqual([1, 1, 1, 2, 2, 2])
  })

  test('keeps an input that alone tells a size, and refuses a size that none tells', () => {
    const g = graph()
    g.input('rows', 'float32', ['n', 4])
    const model = g.outputs({ zeros: g.zeros(['n']) })
    expect(model.inputs.map(({ name }) => name)).toEqual(['rows'])
    expect(() => g.outputs({ zeros: g.zeros(['m']) })).toThrow('no input has the size "m"')
  })

  test('iota counts along known and unknown sizes', async () => {
    const g = graph()
    g.input('rows', 'float32', ['n'])
    const model = g.outputs({ three: g.iota(3), n: g.iota('n'), count: g.count([2, 'n']) })
    const result = await runOnce(model, { rows: { dims: [5], data: [0, 0, 0, 0, 0] } })
    expect(result['three']!.data).toEqual([0, 1, 2])
    expect(result['n']!.data).toEqual([0, 1, 2, 3, 4])
    expect(result['count']!.data).toEqual([10])
  })
})

describe('constants', () => {
  test('hold every dtype exactly', async () => {
    const g = graph()
    const y = g.constant([-1, 2 ** 31 - 1], 'int32')
    const z = g.constant([2n ** 62n, -1n], 'int64')
    const b = g.constant([0, 1, 1], 'bool')
    const h = g.cast(g.constant([0.1, -65504, 2 ** -24, 1e6], 'float16'), 'float32')
    const f = g.cast(g.constant([0.1, -3.5], 'bfloat16'), 'float32')
    const result = await runOnce(g.outputs({ y, z, b, h, f }), {})
    expect(result['y']!.data).toEqual([-1, 2 ** 31 - 1])
    expect(result['z']!.data).toEqual([2 ** 62, -1])
    expect(result['b']!.data).toEqual([0, 1, 1])
    expect(result['h']!.data).toEqual([0.0999755859375, -65504, 2 ** -24, Infinity])
    expect(result['f']!.data).toEqual([0.10009765625, -3.5])
  })

  test('of equal small contents are one value', () => {
    const g = graph()
    expect(g.constant(0.5, 'float32')).toBe(g.constant(0.5, 'float32'))
    expect(g.constant(0.5, 'float32')).not.toBe(g.constant(0.5, 'float64'))
    expect(g.constant([1], 'float32')).not.toBe(g.constant([1], 'float32', [1, 1]))
  })

  test('half precision rounds to the nearest, ties to even', () => {
    expect(toFloat16(1 + 2 ** -11)).toBe(0x3c00)
    expect(toFloat16(1 + 3 * 2 ** -11)).toBe(0x3c02)
    expect(toFloat16(-0)).toBe(0x8000)
    expect(toFloat16(65519)).toBe(0x7bff)
    expect(toFloat16(65520)).toBe(0x7c00)
    expect(toFloat16(2 ** -25)).toBe(0)
    expect(toFloat16(NaN) & 0x7fff).toBeGreaterThan(0x7c00)
    expect(toBfloat16(1 + 2 ** -8)).toBe(0x3f80)
    expect(toBfloat16(1 + 3 * 2 ** -8)).toBe(0x3f82)
    expect(toBfloat16(-Infinity)).toBe(0xff80)
    expect(toBfloat16(NaN) & 0x7fff).toBeGreaterThan(0x7f80)
  })
})
