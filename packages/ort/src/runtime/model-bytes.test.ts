import { expect, test } from 'vitest'
import { graph } from '../graph/index.js'
import { ModelBytes } from './model-bytes.js'

function model() {
  const g = graph()
  const x = g.input('x', 'float32', ['batch', 4])
  const packed = g.weight('packed', 'float32', [4, 4], { path: '/somewhere/model.bin', offset: 8, length: 64 })
  const folded = g.weight('folded', 'float32', [4, 4])
  const both = g.weight('both', 'float32', [4, 4])
  const bias = g.weight('bias', 'float32', [4])
  let y = g.matmul(x, packed)
  y = g.matmul(y, g.transpose(folded, [1, 0]))
  y = g.add(g.matmul(y, both), g.matmul(y, g.mul(both, 2)))
  return g.outputs({ y: g.add(y, bias) })
}

test('external weights are found, and those that only feed products told apart', () => {
  const { weights } = new ModelBytes(model().bytes)
  expect(Object.fromEntries(weights.map(({ name, packable }) => [name, packable]))).toEqual({
    packed: true,
    folded: false,
    both: false,
    bias: false,
  })
})

test('rewriting moves the weights and leaves the rest as it was', () => {
  const { bytes } = model()
  const original = new ModelBytes(bytes)
  const text = (part: Uint8Array) => Buffer.from(part).toString('latin1')
  expect(text(bytes)).toContain('/somewhere/model.bin')
  const moved = original.rewrite(() => ({ placement: 'default', location: 'elsewhere', offset: 1234567 }))
  expect(text(moved)).not.toContain('/somewhere/model.bin')
  expect(text(moved).split('elsewhere')).toHaveLength(5)
  expect(text(moved).split('1234567')).toHaveLength(5)
  expect(new ModelBytes(moved).weights).toEqual(original.weights)
  // Rewriting twice adds nothing: a weight that is an input already stays one input.
  const again = new ModelBytes(moved).rewrite(() => ({ placement: 'default', location: 'elsewhere', offset: 1234567 }))
  expect(again.length).toBe(moved.length)
  const inputs = original.rewrite(() => ({ placement: 'input', location: '' }))
  expect(new ModelBytes(inputs).weights).toEqual([])
})

test('a model without external weights is passed on as it is', () => {
  const g = graph()
  const { bytes } = g.outputs({ y: g.add(g.input('x', 'float32', [2]), 1) })
  expect(new ModelBytes(bytes).rewrite(() => ({ placement: 'input', location: '' }))).toBe(bytes)
})

test('bytes that are no model are refused', () => {
  expect(() => new ModelBytes(new Uint8Array())).toThrow('no ONNX model')
  expect(() => new ModelBytes(Uint8Array.from([0x3a, 200, 1, 2]))).toThrow('no whole ONNX model')
  expect(() => new ModelBytes(Uint8Array.from([0xff]))).toThrow('no whole ONNX model')
  expect(() => new ModelBytes(Uint8Array.from([0x0f, 0]))).toThrow('no ONNX model: wire type 7')
})
