import { DisposedError, InvalidInputError } from '@selfplay/engine'
import { describe, expect, test } from 'vitest'
import type { DType } from '../graph/index.js'
import { DTYPES } from './dtypes.js'
import { allocateHost, asHost, viewHost, wrapHost } from './host-tensor.js'

describe('host tensors', () => {
  test('every dtype is allocated as zeros of its array', () => {
    for (const dtype of Object.keys(DTYPES) as DType[]) {
      const tensor = allocateHost(dtype, [2, 3])
      expect(tensor.size).toBe(6)
      expect(tensor.data).toBeInstanceOf(DTYPES[dtype].array)
      expect(tensor.data.byteLength).toBe(6 * DTYPES[dtype].bytes)
      expect([...tensor.data].every((value) => Number(value) === 0)).toBe(true)
    }
    expect(allocateHost('float32', []).size).toBe(1)
    expect(allocateHost('float32', [0, 3]).size).toBe(0)
  })

  test('a tensor over an array is the array, also a small one', async () => {
    const data = new Float32Array(1)
    const tensor = wrapHost('float32', data, [1])
    data[0] = 7
    expect(tensor.data[0]).toBe(7)
    await tensor.write(Float32Array.of(8))
    expect(data[0]).toBe(8)
    const copy = await tensor.read()
    data[0] = 9
    expect(copy[0]).toBe(8)
  })

  test('views share memory, nest, and keep their parent', () => {
    const parent = allocateHost('int32', [4, 4])
    const rows = viewHost(parent, 4, [2, 4])
    const cell = viewHost(rows, 5, [])
    cell.data[0] = 3
    expect(parent.data[9]).toBe(3)
    parent.dispose()
    expect(() => parent.data).toThrow(DisposedError)
    expect(rows.data[5]).toBe(3)
    rows.dispose()
    expect(cell.data[0]).toBe(3)
    cell.dispose()
    expect(() => cell.data).toThrow(/int32 tensor \[\] was disposed/)
  })

  test('freeing waits for pins, empties the arrays and gives the memory back', () => {
    const given: ArrayBuffer[] = []
    const tensor = allocateHost('float32', [1 << 16], (buffer) => given.push(buffer))
    const stale = tensor.data
    tensor.pin()
    tensor.dispose()
    tensor.dispose()
    expect(stale.length).toBe(1 << 16)
    expect(() => tensor.pin()).toThrow(DisposedError)
    tensor.unpin()
    expect(stale.length).toBe(0)
    expect(given.map((buffer) => buffer.byteLength)).toEqual([1 << 18])
  })

  test("disposing leaves the caller's own array alone", () => {
    const data = new Float32Array(1 << 16).fill(1)
    wrapHost('float32', data, [1 << 16]).dispose()
    expect(data[9]).toBe(1)
  })

  test('what does not fit is refused', async () => {
    expect(() => allocateHost('float32', [2, -1])).toThrow(InvalidInputError)
    expect(() => allocateHost('float32', [1.5])).toThrow('a shape holds integers >= 0, got [1.5]')
    expect(() => wrapHost('float32', new Float32Array(5), [2, 3])).toThrow('expected 6 elements for shape [2, 3]')
    expect(() => wrapHost('float32', new Int32Array(6) as never, [6])).toThrow(
      'expected Float32Array for a float32 tensor, got Int32Array',
    )
    const tensor = allocateHost('float32', [4])
    expect(() => viewHost(tensor, 3, [2])).toThrow('does not lie inside')
    expect(() => viewHost(tensor, -1, [2])).toThrow('does not lie inside')
    await expect(tensor.write(new Float32Array(3))).rejects.toThrow('length 4')
    expect(() => asHost({ dtype: 'float32' } as never, 'input "x"')).toThrow('input "x": expected a tensor made by')
  })
})
