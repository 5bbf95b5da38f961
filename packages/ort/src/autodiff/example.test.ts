import { expect, test } from 'vitest'
import { graph } from '../graph/index.js'
import { runOnce } from '../graph/testing/run.js'
import { differentiate } from './index.js'

test('gradients of softmax regression equal those by hand', async () => {
  const g = graph()
  const x = g.input('x', 'float32', ['batch', 2])
  const y = g.input('y', 'int32', ['batch'])
  const w = g.parameter('w', 'float32', [2, 3])
  const b = g.parameter('b', 'float32', [3])
  const loss = g.softmaxCrossEntropy(g.add(g.matmul(x, w), b), y)
  const { gradients } = differentiate(loss, [w, b])
  const rows = [
    [1, 2],
    [-1, 0.5],
  ]
  const result = await runOnce(g.outputs({ loss, ...gradients }), {
    x: { dims: [2, 2], data: rows.flat() },
    y: { dims: [2], data: [2, 0] },
    w: { dims: [2, 3], data: [0, 0, 0, 0, 0, 0] },
    b: { dims: [3], data: [0, 0, 0] },
  })
  // With equal logits each class has probability 1/3: dlogits = (1/3 - target) / 2.
  const d = [
    [1 / 6, 1 / 6, -1 / 3],
    [-1 / 3, 1 / 6, 1 / 6],
  ]
  expect(result['loss']!.data[0]).toBeCloseTo(Math.log(3))
  const dw = [0, 1].flatMap((i) => [0, 1, 2].map((j) => rows[0]![i]! * d[0]![j]! + rows[1]![i]! * d[1]![j]!))
  result['w.grad']!.data.forEach((value, i) => expect(value).toBeCloseTo(dw[i]!))
  result['b.grad']!.data.forEach((value, j) => expect(value).toBeCloseTo(d[0]![j]! + d[1]![j]!))
})
