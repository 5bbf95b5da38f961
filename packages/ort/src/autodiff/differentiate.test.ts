import { describe, expect, test } from 'vitest'
import { ancestors, graph, type Graph, GraphError, type Value } from '../graph/index.js'
import { runOnce } from '../graph/testing/run.js'
import { differentiate, gradientName } from './index.js'

const count = (op: string, ...values: Value[]) => ancestors(values).filter((node) => node.op === op).length
const vector = (...data: number[]) => ({ dims: [data.length], data })

describe('differentiate', () => {
  test('names gradients after the values, and finds them by value', () => {
    const g = graph()
    const w = g.parameter('w', 'float32', [2])
    const { gradients, of } = differentiate(g.reduceSum(g.mul(w, w)), [w])
    expect(Object.keys(gradients)).toEqual(['w.grad'])
    expect(gradientName('w')).toBe('w.grad')
    expect(of(w)).toBe(gradients['w.grad'])
    expect(() => of(g.neg(w))).toThrow('not differentiated with respect to')
  })

  test('sums over all consumers of a value', async () => {
    const g = graph()
    const w = g.parameter('w', 'float32', [2])
    const square = g.mul(w, w)
    const loss = g.reduceSum(g.add(g.add(square, g.mul(square, w)), g.mul(w, 5)))
    const { gradients } = differentiate(loss, [w])
    const result = await runOnce(g.outputs(gradients), { w: vector(1, -2) })
    expect(result['w.grad']!.data).toEqual([2 + 3 + 5, -4 + 12 + 5])
  })

  test('goes to values in the middle, and on from there', async () => {
    const g = graph()
    const w = g.parameter('w', 'float32', [2])
    const middle = g.exp(w)
    const { of } = differentiate(g.reduceSum(g.mul(middle, middle)), [middle, w])
    const result = await runOnce(g.outputs({ middle: of(middle), w_grad: of(w) }), { w: vector(0, 0) })
    expect(result['middle']!.data).toEqual([2, 2])
    expect(result['w_grad']!.data).toEqual([2, 2])
  })

  test('starts from several seeds', async () => {
    const g = graph()
    const w = g.parameter('w', 'float32', [2])
    const [a, b] = [g.mul(w, 3), g.mul(w, w)]
    const da = g.input('da', 'float32', [2])
    const db = g.input('db', 'float32', [2])
    const { gradients } = differentiate(
      [
        { value: a, gradient: da },
        { value: b, gradient: db },
        { value: b, gradient: db },
      ],
      [w],
    )
    const result = await runOnce(g.outputs(gradients), { w: vector(1, 2), da: vector(1, 10), db: vector(100, 1000) })
    expect(result['w.grad']!.data).toEqual([3 + 2 * 2 * 100, 30 + 2 * 4 * 1000])
  })

  test('a seed may be what is asked for', async () => {
    const g = graph()
    const w = g.parameter('w', 'float32', [2])
    const gradient = g.input('gradient', 'float32', [2])
    const { gradients } = differentiate([{ value: w, gradient }], [w])
    const result = await runOnce(g.outputs(gradients), { w: vector(0, 0), gradient: vector(7, 8) })
    expect(result['w.grad']!.data).toEqual([7, 8])
  })

  test('ends at stopGradient and at flat ops', async () => {
    const g = graph()
    const w = g.parameter('w', 'float32', [2])
    const loss = g.reduceSum(g.add(g.mul(w, g.stopGradient(w)), g.mul(g.floor(w), 100)))
    const { gradients } = differentiate(loss, [w])
    const result = await runOnce(g.outputs(gradients), { w: vector(1.5, 2.5) })
    expect(result['w.grad']!.data).toEqual([1.5, 2.5])
  })

  test('adds nothing for what nobody asked', () => {
    const g = graph()
    const x = g.input('x', 'float32', [4, 3])
    const w = g.parameter('w', 'float32', [3, 2])
    const loss = g.reduceSum(g.tanh(g.gemm(x, w)))
    const before = g.nodes.length
    const { of } = differentiate(loss, [w])
    expect(count('Gemm', of(w))).toBe(2)
    // Seed, tanh's slope (2) and product, Gemm; a sum is never written out.
    expect(g.nodes.slice(before).map(({ op }) => op)).toEqual(['Unsqueeze', 'Mul', 'Sub', 'Mul', 'Gemm'])
  })
})

describe('gradient graphs are lean', () => {
  test('a tied embedding adds its rows to the gradient of the head', () => {
    const g = graph()
    const table = g.parameter('table', 'float32', [10, 4])
    const rows = g.gather(table, g.input('ids', 'int32', ['n']))
    const logits = g.gemm(g.tanh(rows), table, undefined, { transB: true })
    const loss = g.softmaxCrossEntropy(logits, g.input('targets', 'int32', ['n']))
    const gradient = differentiate(loss, [table]).of(table)
    const scatter = gradient.producer!
    expect(scatter.op).toBe('ScatterND')
    expect(scatter.inputs[0]!.producer!.op).toBe('Gemm')
  })

  test('weights are never transposed by a node of their own', () => {
    const g = graph()
    const x = g.input('x', 'float32', ['b', 's', 8])
    const w = g.parameter('w', 'float32', [8, 4])
    const v = g.parameter('v', 'float32', [4, 4])
    const loss = g.reduceMean(g.gemm(g.reshape(g.matmul(x, w), ['b*s', 4]), v, undefined, { transB: true }))
    const { of } = differentiate(loss, [w, v])
    expect(count('Transpose', of(w), of(v))).toBe(0)
  })

  test('gradients of reductions stay small until something needs them large', () => {
    const g = graph()
    const x = g.parameter('x', 'float32', ['n', 5])
    g.input('more', 'float32', ['n'])
    const { of } = differentiate(g.reduceSum(g.logSumExp(x)), [x])
    expect(count('Expand', of(x))).toBe(0)
  })

  test('SiLU has five elementwise ops', () => {
    const g = graph()
    const x = g.parameter('x', 'float32', [4])
    const gradient = differentiate([{ value: g.silu(x), gradient: g.input('dy', 'float32', [4]) }], [x]).of(x)
    expect(ancestors([gradient]).map(({ op }) => op)).toEqual(['QuickGelu', 'Sigmoid', 'Sub', 'Mul', 'Add', 'Mul'])
  })
})

describe('symbolic sizes', () => {
  test('a piece of an axis of unknown size gets zeros around it', async () => {
    const g = graph()
    const x = g.parameter('x', 'float32', ['n'])
    const inner = g.slice(x, { axis: 0, start: 1, end: -1, size: 'inner' })
    const first = g.slice(x, { axis: 0, end: 2 })
    const loss = g.add(g.reduceSum(g.mul(inner, inner)), g.reduceSum(g.mul(first, 10)))
    const { gradients } = differentiate(loss, [x])
    const result = await runOnce(g.outputs(gradients), { x: vector(1, 2, 3, 4, 5) })
    expect(result['x.grad']!.data).toEqual([10, 14, 6, 8, 0])
  })

  test('a mean over unknown sizes divides by how many there are', async () => {
    const g = graph()
    const x = g.parameter('x', 'float32', ['n', 2, 'm'])
    const { gradients } = differentiate(g.reduceMean(x), [x])
    const result = await runOnce(g.outputs(gradients), { x: { dims: [3, 2, 2], data: Array(12).fill(1) } })
    result['x.grad']!.data.forEach((value) => expect(value).toBeCloseTo(1 / 12))
  })

  test('a concatenation of unknown sizes is taken apart again', async () => {
    const g = graph()
    const [a, b] = [g.parameter('a', 'float32', ['n']), g.parameter('b', 'float32', ['m'])]
    const joined = g.concat([a, b, a], { axis: 0, size: 'all' })
    const { gradients } = differentiate(g.reduceSum(g.mul(joined, joined)), [a, b])
    const result = await runOnce(g.outputs(gradients), { a: vector(1, 2), b: vector(3) })
    expect(result['a.grad']!.data).toEqual([4, 8])
    expect(result['b.grad']!.data).toEqual([6])
  })

  test('embedding rows that occur often are summed', async () => {
    const g = graph()
    const table = g.parameter('table', 'float32', [3, 2])
    const { gradients } = differentiate(g.reduceSum(g.gather(table, g.input('ids', 'int32', ['b', 's']))), [table])
    const ids = { dims: [50, 40], data: Array.from({ length: 2000 }, (_, i) => (i % 4 === 0 ? 0 : 2)) }
    const result = await runOnce(g.outputs(gradients), { table: { dims: [3, 2], data: Array(6).fill(0) }, ids })
    expect(result['table.grad']!.data).toEqual([500, 500, 0, 0, 1500, 1500])
  })
})

describe('what cannot be differentiated is refused', () => {
  const g: Graph = graph()
  const w = g.parameter('w', 'float32', [2])
  const other = g.parameter('other', 'float32', [2])
  const ids = g.input('ids', 'int32', [2])
  const loss = g.reduceSum(w)

  test.each<[string, () => unknown, string]>([
    [
      'a loss of several numbers',
      () => differentiate(g.neg(w), [w]),
      'must be one floating-point number, not float32[2]',
    ],
    ['a loss of an integer', () => differentiate(g.cast(loss, 'int32'), [w]), 'one floating-point number, not int32[]'],
    ['nothing to differentiate by', () => differentiate(loss, []), 'at least one value'],
    ['no seeds', () => differentiate([], [w]), 'at least one seed'],
    ['a seed of another shape', () => differentiate([{ value: w, gradient: loss }], [w]), 'float32[2], not float32[]'],
    ['integers', () => differentiate(loss, [ids]), 'int32 values have no gradient: "ids"'],
    ['values of another graph', () => differentiate(loss, [graph().parameter('v', 'float32', [1])]), 'another graph'],
    ['what the loss does not depend on', () => differentiate(loss, [other]), 'does not depend on "other"'],
    ['rotary tables', () => rotaryTables(), 'cos and sin have no gradient'],
    ['inference ops', () => grouped(), 'GroupQueryAttention: it has no gradient'],
    ['saved statistics', () => statistics(), 'the saved statistics have no gradient'],
  ])('%s', (_, act, why) => {
    expect(act).toThrow(GraphError)
    expect(act).toThrow(why)
  })

  test('unless zeros are wanted', async () => {
    const { gradients } = differentiate(loss, [w, other], { unreached: 'zeros' })
    const result = await runOnce(g.outputs(gradients), { w: vector(1, 2), other: vector(3, 4) })
    expect(result['other.grad']!.data).toEqual([0, 0])
    expect(result['w.grad']!.data).toEqual([1, 1])
  })

  function rotaryTables() {
    const h = graph()
    const cos = h.parameter('cos', 'float32', [5, 2])
    const x = h.input('x', 'float32', [1, 2, 3, 4])
    const turned = h.rotaryEmbedding(x, h.input('at', 'int64', [1, 3]), cos, cos)
    return differentiate(h.reduceSum(turned), [cos])
  }

  function grouped() {
    const h = graph()
    const query = h.parameter('query', 'float32', [1, 1, 12])
    const { output } = h.groupQueryAttention(
      { query, lengths: h.input('lengths', 'int32', [1]), totalLength: h.input('total', 'int32', []) },
      { numHeads: 1, kvNumHeads: 1 },
    )
    return differentiate(h.reduceSum(output), [query])
  }

  function statistics() {
    const h = graph()
    const x = h.parameter('x', 'float32', [2, 3])
    const params = { axis: 1, epsilon: 1e-5 }
    const [, mean] = h.apply('LayerNormalization', [x, h.constant([1, 1, 1], 'float32')], params)
    return differentiate(h.reduceSum(mean!), [x])
  }
})
