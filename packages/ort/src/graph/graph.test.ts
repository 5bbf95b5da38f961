import * as ort from 'onnxruntime-node'
import { expect, test } from 'vitest'
import { graph } from './index.js'

test('the README example runs', async () => {
  const g = graph()
  const x = g.input('x', 'float32', ['batch', 3])
  const y = g.input('y', 'int32', ['batch'])
  const w = g.parameter('w', 'float32', [3, 2])
  const b = g.parameter('b', 'float32', [2])
  const loss = g.softmaxCrossEntropy(g.add(g.matmul(x, w), b), y)
  const model = g.outputs({ loss })
  const session = await ort.InferenceSession.create(model.bytes)
  const out = await session.run({
    x: new ort.Tensor('float32', new Float32Array(6), [2, 3]),
    y: new ort.Tensor('int32', new Int32Array(2), [2]),
    w: new ort.Tensor('float32', new Float32Array(6), [3, 2]),
    b: new ort.Tensor('float32', new Float32Array(2), [2]),
  })
  expect(out.loss!.data[0]).toBeCloseTo(Math.log(2))
})
