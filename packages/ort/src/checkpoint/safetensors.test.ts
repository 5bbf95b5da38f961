import { execFileSync } from 'node:child_process'
import { mkdtemp, open, readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CheckpointError, InvalidInputError } from '@selfplay/engine'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readText } from './json.js'
import {
  openSafetensors,
  readRawTensor,
  readTensor,
  requireTensor,
  weightFile,
  type TensorEntry,
} from './safetensors.js'
import { writeSafetensors, type TensorSource } from './safetensors-writer.js'

const fixture = (name: string) => join(import.meta.dirname, '../../../../fixtures/models', name)

let folder: string
let count = 0
const fresh = () => join(folder, `${count++}.safetensors`)
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'selfplay-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

/** A file with this header and `data` zero bytes. */
async function handmade(header: unknown, data: number, headerLength?: bigint): Promise<string> {
  const path = fresh()
  const json = typeof header === 'string' ? header : JSON.stringify(header)
  const text = header instanceof Uint8Array ? header : Buffer.from(json, 'utf8')
  const prefix = Buffer.alloc(8)
  prefix.writeBigUInt64LE(headerLength ?? BigInt(text.length))
  await writeFile(path, Buffer.concat([prefix, text, Buffer.alloc(data)]))
  return path
}

const float = (name: string, values: ArrayLike<number>, dtype: 'F32' | 'F16' | 'BF16' = 'F32'): TensorSource => ({
  name,
  shape: [values.length],
  dtype,
  read: () => Float32Array.from(values),
})

describe('reading', () => {
  it('reads a real model lazily, and gives the place of each tensor', async () => {
    const path = fixture('qwen2/model.safetensors')
    const file = await openSafetensors(path)
    expect(file.metadata).toEqual({ format: 'pt' })
    const entry = requireTensor(file.tensors, 'model.embed_tokens.weight', path)
    expect(entry).toMatchObject({ dtype: 'F32', shape: [131, 48], length: 131 * 48 * 4 })
    const bytes = await readFile(path)
    const { offset, length } = weightFile(entry)!
    const values = await readTensor(entry)
    expect(Buffer.from(values.buffer)).toEqual(bytes.subarray(offset, offset + length))
    expect([...file.tensors.values()].reduce((sum, { length }) => sum + length, 0)).toBe(
      bytes.length - 8 - bytes.readUInt32LE(0),
    )
  })

  it('reads into memory that is there', async () => {
    const path = fresh()
    await writeSafetensors(path, [float('x', [1, 2, 3], 'BF16')])
    const { tensors } = await openSafetensors(path)
    const memory = new Float32Array(5)
    const into = memory.subarray(1, 4)
    expect(await readTensor(tensors.get('x')!, { into })).toBe(into)
    expect(memory).toEqual(Float32Array.of(0, 1, 2, 3, 0))
    await expect(readTensor(tensors.get('x')!, { into: memory })).rejects.toThrow(InvalidInputError)
  })

  it('holds no more memory than the result, for 16-bit tensors too', async () => {
    const path = fresh()
    const n = 8 << 20
    await writeSafetensors(path, [{ name: 'x', shape: [n], dtype: 'BF16', read: () => new Float32Array(n).fill(1.5) }])
    const { tensors } = await openSafetensors(path)
    const used = () => process.memoryUsage().arrayBuffers
    const before = used()
    let peak = 0
    const watch = setInterval(() => (peak = Math.max(peak, used())), 0)
    const values = await readTensor(tensors.get('x')!)
    clearInterval(watch)
    peak = Math.max(peak, used())
    expect(values.every((value) => value === 1.5)).toBe(true)
    expect(peak - before).toBeLessThan(4 * n + (1 << 20))
  })

  it('refuses another dtype than asked for, and unknown names', async () => {
    const path = fresh()
    await writeSafetensors(path, [{ name: 'ids', shape: [2], dtype: 'I64', read: () => BigInt64Array.of(1n, -1n) }])
    const { tensors } = await openSafetensors(path)
    await expect(readTensor(tensors.get('ids')!)).rejects.toThrow(/expected a dtype of F32, F16 or BF16, got I64/)
    await expect(readRawTensor(tensors.get('ids')!, 'I32')).rejects.toThrow(/expected the dtype I32, got I64/)
    expect(await readRawTensor(tensors.get('ids')!, 'I64')).toEqual(BigInt64Array.of(1n, -1n))
    expect(() => requireTensor(tensors, 'x', path)).toThrow(/expected a tensor "x", got 1 others \("ids"/)
    expect(weightFile(tensors.get('ids')!)).toBeUndefined()
  })

  it('notices a file that shrank after it was opened', async () => {
    const path = fresh()
    await writeSafetensors(path, [float('x', [1, 2, 3])])
    const { tensors } = await openSafetensors(path)
    await truncate(path, tensors.get('x')!.offset + 4)
    await expect(readTensor(tensors.get('x')!)).rejects.toThrow(/the file was cut short/)
  })

  it('rejects with the reason of the signal', async () => {
    const signal = AbortSignal.abort(new Error('enough'))
    await expect(openSafetensors(fixture('qwen2/model.safetensors'), { signal })).rejects.toThrow('enough')
  })
})

const info = (extra: object) => ({ x: { dtype: 'F32', shape: [2], data_offsets: [0, 8], ...extra } })
const pair = (first: [number, number], second: [number, number]) => ({
  a: { dtype: 'U8', shape: [first[1] - first[0]], data_offsets: first },
  b: { dtype: 'U8', shape: [second[1] - second[0]], data_offsets: second },
})

describe('hostile files', () => {
  it.each<[string, unknown, number, RegExp, bigint?]>([
    ['a header longer than the file', info({}), 8, /expected a header of 5000 bytes, got a file of/, 5000n],
    [
      'a header beyond the limit',
      info({}),
      8,
      /at most 100000000 bytes, got a header length of 18446744073709551615/,
      2n ** 64n - 1n,
    ],
    ['a header that is no JSON', '{"x": ', 8, /expected a JSON object, got text that is not JSON/],
    ['a header that is a list', [], 0, /expected a JSON object, got an array/],
    ['a header that is null', null, 0, /expected a JSON object, got "null"/],
    [
      'a header that is not UTF-8',
      Buffer.from('{"\xff":0}', 'latin1'),
      0,
      /expected UTF-8 text, got bytes that are not UTF-8/,
    ],
    [
      'a tensor twice',
      '{"x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"\\u0078":{}}',
      0,
      /expected each key once, got the key "x" twice/,
    ],
    ['a field twice', '{"x":{"dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0]}}', 0, /the key "dtype" twice/],
    ['an entry that is no object', { x: 3 }, 0, /expected an object with dtype, shape and data_offsets/],
    ['an unknown field', info({ evil: 1 }), 8, /expected only dtype, shape and data_offsets/],
    ['an unknown dtype', info({ dtype: 'F4' }), 8, /expected a dtype of F64, .*, got "\\"F4\\""/],
    ['a dtype from the prototype', info({ dtype: 'toString' }), 8, /expected a dtype of/],
    ['a negative size', info({ shape: [-2] }), 8, /expected a shape of sizes >= 0/],
    ['a fractional size', info({ shape: [0.5, 4] }), 8, /expected a shape of sizes >= 0/],
    ['a size beyond 2^53', info({ shape: [1e300] }), 8, /expected a shape of sizes >= 0/],
    [
      'a product that overflows',
      info({ shape: [2 ** 52, 2 ** 52] }),
      8,
      /bytes for F32 .*, got data_offsets of 8 bytes/,
    ],
    ['negative offsets', info({ data_offsets: [-8, 0] }), 8, /data_offsets \[begin, end\]/],
    ['offsets the wrong way round', info({ data_offsets: [8, 0] }), 8, /data_offsets \[begin, end\]/],
    ['three offsets', info({ data_offsets: [0, 8, 16] }), 8, /data_offsets \[begin, end\]/],
    [
      'offsets that do not fit the shape',
      info({ shape: [3] }),
      8,
      /expected 12 bytes for F32 \[3\], got data_offsets of 8 bytes/,
    ],
    [
      'offsets beyond the file',
      info({}),
      4,
      /expected 8 bytes of data after the header, got 4 \(the file was cut short\)/,
    ],
    [
      'bytes that no tensor owns',
      info({}),
      12,
      /expected 8 bytes of data after the header, got 12 \(bytes that no tensor owns\)/,
    ],
    [
      'overlapping tensors',
      pair([0, 4], [2, 6]),
      6,
      /tensor "b" to begin at byte 4 of the data, got byte 2 \(overlapping/,
    ],
    ['one tensor inside another', pair([0, 8], [2, 4]), 8, /overlapping/],
    ['a gap between tensors', pair([0, 4], [6, 8]), 8, /got byte 6 \(leaving a gap\)/],
    ['metadata that is no object', { __metadata__: 'x' }, 0, /expected a __metadata__ of strings/],
    ['metadata that are no strings', { __metadata__: { x: 1 } }, 0, /expected a __metadata__ of strings/],
  ])('refuses %s', async (_, header, data, message, headerLength) => {
    const path = await handmade(header, data, headerLength)
    const error: unknown = await openSafetensors(path).catch((caught: unknown) => caught)
    expect(error).toBeInstanceOf(CheckpointError)
    expect((error as CheckpointError).message).toMatch(message)
    expect((error as CheckpointError).message).toContain(path)
    expect((error as CheckpointError).details).toMatchObject({ path: expect.stringContaining(path) as string })
  })

  it('refuses an empty file, a missing one and a folder', async () => {
    const empty = fresh()
    await writeFile(empty, '')
    await expect(openSafetensors(empty)).rejects.toThrow(/at least 8 bytes, got 0 bytes/)
    await expect(openSafetensors(join(folder, 'none'))).rejects.toThrow(/it does not exist \(ENOENT\)/)
    await expect(openSafetensors(folder)).rejects.toThrow(CheckpointError)
  })

  it.runIf(process.platform !== 'win32')('does not wait for a named pipe', async () => {
    const pipe = fresh()
    execFileSync('mkfifo', [pipe])
    await expect(openSafetensors(pipe)).rejects.toThrow(/expected a file, got a pipe, a device or a socket/)
    await expect(readText(pipe)).rejects.toThrow(/expected a file, got a pipe/)
  })

  it('refuses a file cut anywhere, never with another kind of error', async () => {
    const bytes = await readFile(fixture('qwen2/lora/adapter_model.safetensors'))
    const path = fresh()
    for (let cut = 0; cut < bytes.length; cut += 97) {
      await writeFile(path, bytes.subarray(0, cut))
      await expect(openSafetensors(path)).rejects.toThrow(CheckpointError)
    }
  })

  it('keeps control characters of a name out of the message', async () => {
    const path = await handmade({ 'a\u001b[2Jb\u009b': 3 }, 0)
    const error: unknown = await openSafetensors(path).catch((caught: unknown) => caught)
    expect((error as Error).message).toMatch(/\\u001b\[2J/)
    // oxlint-disable-next-line no-control-regex
    expect((error as Error).message).not.toMatch(/[\u0000-\u001f\u007f-\u009f]/)
  })
})

describe('writing', () => {
  it('keeps the order, the metadata, any name, and aligns the data to 8 bytes', async () => {
    const names = ['z', '__proto__', 'größe/Ω', '0', 'a"b\\c']
    const path = fresh()
    const record = await writeSafetensors(
      path,
      names.map((name, at) => float(name, [at, at + 0.5])),
      { metadata: { format: 'pt', note: 'ä' } },
    )
    const file = await openSafetensors(path)
    expect([...file.tensors.keys()]).toEqual(names)
    expect(file.metadata).toEqual({ format: 'pt', note: 'ä' })
    expect(file.tensors.get('z')!.offset % 8).toBe(0)
    for (const [at, name] of names.entries()) {
      expect(await readTensor(file.tensors.get(name)!)).toEqual(Float32Array.of(at, at + 0.5))
    }
    expect(record.size).toBe((await readFile(path)).length)
  })

  it('brings back any tensors of any float width', async () => {
    const sizes = fc.array(fc.integer({ min: 0, max: 5 }), { maxLength: 4 })
    const dtypes = fc.constantFrom('F32' as const, 'F16' as const, 'BF16' as const)
    const anyTensor = fc.tuple(sizes, dtypes)
    await fc.assert(
      fc.asyncProperty(fc.array(anyTensor, { maxLength: 6 }), async (shapes) => {
        const path = fresh()
        const values = (at: number, shape: readonly number[]) =>
          Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => ((i % 200) - at) / 8)
        await writeSafetensors(
          path,
          shapes.map(([shape, dtype], at) => ({ name: `t${at}`, shape, dtype, read: () => values(at, shape) })),
        )
        const { tensors } = await openSafetensors(path)
        for (const [at, [shape, dtype]] of shapes.entries()) {
          const entry = tensors.get(`t${at}`)!
          expect(entry).toMatchObject({ shape, dtype } satisfies Partial<TensorEntry>)
          expect(await readTensor(entry)).toEqual(values(at, shape))
        }
      }),
      { numRuns: 40 },
    )
  })

  it('asks for one tensor at a time', async () => {
    const order: string[] = []
    const source = (name: string): TensorSource => ({
      name,
      shape: [1],
      dtype: 'F32',
      read: async () => {
        order.push(`${name} asked`)
        await Promise.resolve()
        return Float32Array.of(1)
      },
    })
    await writeSafetensors(fresh(), ['a', 'b', 'c'].map(source))
    expect(order).toEqual(['a asked', 'b asked', 'c asked'])
  })

  it.each<[string, TensorSource[], RegExp]>([
    ['a wrong length', [{ ...float('x', [1, 2]), shape: [3] }], /expected 3 elements, got 2/],
    ['a name twice', [float('x', [1]), float('x', [2])], /each tensor name once/],
    ['the reserved name', [float('__metadata__', [1])], /reserved name/],
    ['a negative size', [{ ...float('x', []), shape: [-1] }], /a shape of sizes >= 0/],
    ['a number too large for float16', [float('x', [1, 70000], 'F16')], /element 1 is 70000, beyond the 65504/],
  ])('refuses %s and leaves no file', async (_, tensors, message) => {
    const path = fresh()
    await expect(writeSafetensors(path, tensors)).rejects.toThrow(message)
    await expect(open(path)).rejects.toThrow(/ENOENT/)
  })

  it('writes infinities that are there already as infinities', async () => {
    const path = fresh()
    await writeSafetensors(path, [float('x', [Infinity, -Infinity, 65504], 'F16')])
    expect(await readTensor((await openSafetensors(path)).tensors.get('x')!)).toEqual(
      Float32Array.of(Infinity, -Infinity, 65504),
    )
  })
})
