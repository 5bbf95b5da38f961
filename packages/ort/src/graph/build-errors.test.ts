import { describe, expect, test } from 'vitest'
import { graph, type Graph, GraphError, type Value } from './index.js'

const g: Graph = graph()
const x = g.input('x', 'float32', ['batch', 3])
const wide = g.input('wide', 'float32', ['batch', 4])
const cube = g.input('cube', 'float32', [2, 3, 4])
const double = g.input('double', 'float64', ['batch', 3])
const ids = g.input('ids', 'int32', ['batch'])
const flags = g.input('flags', 'bool', ['batch', 3])
const line = g.input('line', 'float32', [3])

/** Each with the op that must be named and a part of what is said. */
const wrong: readonly (readonly [string, () => unknown, string, string])[] = [
  ['sizes that do not broadcast', () => g.add(x, wide), 'Add', 'the shapes do not broadcast'],
  ['two symbols', () => g.mul(x, g.input('other', 'float32', ['n', 3])), 'Mul', 'do not broadcast'],
  ['two dtypes', () => g.sub(x, double), 'Sub', 'must have one dtype'],
  ['a float op on integers', () => g.exp(ids), 'Exp', 'must be float32'],
  ['a number as condition', () => g.where(x, x, x), 'Where', 'must be bool'],
  ['inner sizes', () => g.matmul(x, wide), 'MatMul', 'the last axis of the first'],
  ['a vector in a product', () => g.matmul(x, line), 'MatMul', 'at least two axes'],
  ['batches', () => g.matmul(cube, g.input('batches', 'float32', [3, 4, 1])), 'MatMul', 'batch axes'],
  ['Gemm sizes', () => g.gemm(x, wide, undefined, { transB: true }), 'Gemm', "inner sizes of A and B'"],
  ['Gemm ranks', () => g.gemm(cube, x), 'Gemm', 'must be matrices'],
  ['Gemm bias', () => g.gemm(x, wide, line, { transA: true }), 'Gemm', 'C must broadcast to [3, 4]'],
  ['an axis', () => g.softmax(x, { axis: 2 }), 'Softmax', 'axis 2 is not among the 2 axes'],
  ['a reduced axis', () => g.reduceSum(x, { axes: [-3] }), 'ReduceSum', 'axis -1 is not among'],
  ['axes twice', () => g.reduceMax(x, { axes: [1, -1] }), 'ReduceMax', 'repeat'],
  ['a count of elements', () => g.reshape(x, ['batch', 4]), 'Reshape', 'another number of elements'],
  ['an open size that is no whole', () => g.reshape(x, [2, -1]), 'Reshape', 'no size for the -1'],
  ['an expansion of more than 1', () => g.expand(x, ['batch', 6]), 'Expand', 'does not broadcast to [batch, 6]'],
  ['a permutation', () => g.transpose(x, [0, 0]), 'Transpose', 'each of its axes once'],
  ['an empty slice', () => g.slice(x, { axis: 1, start: 3 }), 'Slice', 'is empty'],
  ['a slice of unknown size', () => g.slice(x, { axis: 0, start: 1 }), 'Slice', 'needs a size'],
  ['pieces that do not add up', () => g.split(x, [1, 1], { axis: 1 }), 'Split', 'do not add up to 3'],
  ['a sum of symbols without name', () => g.concat([x, x], { axis: 0 }), 'Concat', 'needs a name'],
  ['other sizes in a concat', () => g.concat([x, wide], { axis: 0, size: 'n' }), 'Concat', 'must agree'],
  ['a squeeze of more than 1', () => g.squeeze(x, [1]), 'Squeeze', 'has size 3, not 1'],
  ['an unsqueezed axis', () => g.unsqueeze(x, [5]), 'Unsqueeze', 'axis 5'],
  ['repeats', () => g.tile(x, [2]), 'Tile', 'one repeat an axis'],
  ['a triangle of a vector', () => g.trilu(line), 'Trilu', 'two axes'],
  ['range ends', () => g.range(line, line, line, 3), 'Range', 'must be scalars'],
  ['float indices', () => g.gather(x, line), 'Gather', 'must be int32 or int64'],
  ['index rank', () => g.gatherElements(x, ids), 'GatherElements', 'must fit the data'],
  ['coordinates', () => g.gatherND(x, ids), 'GatherND', 'a number of axes'],
  [
    'update shape',
    () => g.scatterND(x, g.reshape(ids, ['batch', 1]), wide),
    'ScatterND',
    'the updates must be [batch, 3]',
  ],
  ['element updates', () => g.scatterElements(x, g.reshape(ids, ['batch', 1]), x), 'ScatterElements', 'one shape'],
  ['k', () => g.topK(x, 4), 'TopK', 'from 1 to 3'],
  ['no bound', () => g.clip(x, {}), 'Clip', 'min or max'],
  ['crossed bounds', () => g.clip(x, { min: 1, max: 0 }), 'Clip', 'above'],
  ['a scale', () => g.layerNorm(x, g.constant([1, 1], 'float32')), 'LayerNormalization', 'must broadcast to [3]'],
  ['an epsilon', () => g.rmsNorm(x, line, { epsilon: 0 }), 'SimplifiedLayerNormalization', 'epsilon must be positive'],
  ['rotary heads', () => g.rotaryEmbedding(cube, ids, x, x), 'RotaryEmbedding', 'needs numHeads'],
]

describe('a wrong use is an error when it is built', () => {
  test.each(wrong)('%s', (_, build, op, why) => {
    const error = thrown(build)
    expect(error.code).toBe('graph')
    expect(error.message.startsWith(`${op}: `)).toBe(true)
    expect(error.message).toContain(why)
    // Both sides are named with dtype and shape.
    const { inputs } = error.details as { inputs: readonly Value[] }
    for (const { name, dtype, shape } of inputs) {
      expect(error.message).toContain(`${name}: ${dtype}[${shape.join(', ')}]`)
    }
  })

  test('values of two graphs do not mix', () => {
    expect(thrown(() => graph().add(x, x)).message).toContain('"x" is of another graph')
  })

  test('names are given once', () => {
    expect(thrown(() => g.input('x', 'int32', [1])).message).toContain('"x" is declared already, as float32[batch, 3]')
    expect(thrown(() => g.input('', 'int32', [1])).message).toContain('empty')
  })

  test('parameters are floating point', () => {
    expect(thrown(() => g.parameter('n', 'int32', [1])).message).toContain('must be floating point, not int32')
  })

  test('constants have as many numbers as their shape', () => {
    expect(thrown(() => g.constant([1, 2], 'float32', [3])).message).toContain('needs 3 numbers; got 2')
  })

  test('two numbers make no node', () => {
    expect(thrown(() => g.add(1, 2)).message).toContain('one operand must be a value')
  })

  test('options are known ones', () => {
    expect(thrown(() => graph({ provider: 'cpu' } as object)).message).toContain('provider')
    expect(thrown(() => graph({ providers: ['gpu'] as never })).message).toContain('cpu, cuda, webgpu, wasm')
  })

  test('bool operands of float ops are refused too', () => {
    expect(thrown(() => g.add(flags, flags)).message).toContain('Add: input 0 must be float32')
  })
})

/** What was thrown, if it is the error of a graph. */
function thrown(build: () => unknown): GraphError {
  try {
    build()
  } catch (error) {
    if (error instanceof GraphError) return error
    throw error
  }
  throw new Error('nothing was thrown')
}
