import { InvalidInputError, type CallOptions } from '@selfplay/engine'
import { writeFileAtomic, type ByteSink, type FileRecord, type WriteOptions } from './atomic.js'
import { narrow } from './half.js'
import { elementCount, STORED_BYTES, type RawArrays } from './safetensors.js'

/** One tensor to write. `read` is called once, when its turn comes, and what it gives is dropped after that. */
export interface TensorSource<D extends keyof RawArrays = keyof RawArrays> {
  readonly name: string
  readonly shape: readonly number[]
  /** How to store it. F16 and BF16 are narrowed from float32. */
  readonly dtype: D
  /** The elements in row-major order: float32 for F32, F16 and BF16, else the array of the dtype. */
  readonly read: () => SourceArray<D> | Promise<SourceArray<D>>
}

/** What `read` of a {@link TensorSource} gives. */
export type SourceArray<D extends keyof RawArrays> = D extends 'F16' | 'BF16' ? Float32Array : RawArrays[D]

export interface SafetensorsWriteOptions {
  /** Goes into the header as `__metadata__`. */
  readonly metadata?: Readonly<Record<string, string>>
}

/** Elements narrowed at a time. */
const BLOCK = 1 << 20

const checkShape = ({ name, shape }: TensorSource): void => {
  if (shape.every((size) => Number.isSafeInteger(size) && size >= 0)) return
  throw new InvalidInputError(`tensor ${name}: expected a shape of sizes >= 0, got [${shape.join(', ')}]`, {
    tensor: name,
  })
}

/** Bytes of the data part of a file of these tensors. */
export const storedLength = ({ dtype, shape }: Pick<TensorSource, 'dtype' | 'shape'>): number =>
  elementCount(shape) * STORED_BYTES[dtype]

function encodeHeader(
  tensors: readonly TensorSource[],
  metadata: Readonly<Record<string, string>> | undefined,
): Buffer {
  const fields = new Map<string, unknown>()
  if (metadata) fields.set('__metadata__', metadata)
  let begin = 0
  for (const tensor of tensors) {
    checkShape(tensor)
    const { name, dtype, shape } = tensor
    if (fields.has(name) || name === '__metadata__') {
      throw new InvalidInputError(`expected each tensor name once, got "${name}" twice or as a reserved name`, {
        tensor: name,
      })
    }
    const end = begin + storedLength(tensor)
    fields.set(name, { dtype, shape, data_offsets: [begin, end] })
    begin = end
  }
  const json = `{${[...fields].map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`).join(',')}}`
  const text = Buffer.from(json, 'utf8')
  const padded = Math.ceil(text.length / 8) * 8
  const header = Buffer.alloc(8 + padded, ' ')
  header.writeBigUInt64LE(BigInt(padded))
  text.copy(header, 8)
  return header
}

/**
 * Writes tensors in safetensors format, in the order given and one at a time: no more than one is held. The data part
 * begins at a multiple of 8 bytes.
 *
 * @throws InvalidInputError when a name comes twice, an array does not fit its shape, or a finite number would become
 *   infinite as F16 (beyond 65504; store it as F32 then).
 */
export async function writeTensors(
  sink: ByteSink,
  tensors: readonly TensorSource[],
  { signal, metadata }: SafetensorsWriteOptions & CallOptions = {},
): Promise<void> {
  await sink.write(encodeHeader(tensors, metadata))
  for (const tensor of tensors) {
    signal?.throwIfAborted()
    const values = await tensor.read()
    const count = elementCount(tensor.shape)
    if (values.length !== count) {
      throw new InvalidInputError(
        `tensor ${tensor.name} [${tensor.shape.join(', ')}]: expected ${count} elements, got ${values.length}`,
        { tensor: tensor.name, expected: count, got: values.length },
      )
    }
    if (tensor.dtype === 'F16' || tensor.dtype === 'BF16')
      await writeNarrowed(sink, tensor, values as Float32Array, tensor.dtype)
    else await sink.write(new Uint8Array(values.buffer, values.byteOffset, values.byteLength))
  }
}

/** Index of the first finite number that became infinite, or -1. */
function firstOverflow(values: Float32Array, narrowed: Uint16Array): number {
  for (let i = 0; i < narrowed.length; i++) {
    if ((narrowed[i]! & 0x7fff) === 0x7c00 && Number.isFinite(values[i])) return i
  }
  return -1
}

async function writeNarrowed(sink: ByteSink, { name }: TensorSource, values: Float32Array, dtype: 'F16' | 'BF16') {
  const block = new Uint16Array(new ArrayBuffer(2 * Math.min(BLOCK, values.length)))
  for (let start = 0; start < values.length; start += BLOCK) {
    const part = values.subarray(start, start + BLOCK)
    const narrowed = block.subarray(0, part.length)
    narrow(dtype, part, narrowed)
    const infinite = dtype === 'F16' ? firstOverflow(part, narrowed) : -1
    if (infinite >= 0) {
      throw new InvalidInputError(
        `tensor ${name}: element ${start + infinite} is ${part[infinite]}, beyond the 65504 that float16 can hold: store it as float32`,
        { tensor: name, element: start + infinite, got: part[infinite] },
      )
    }
    await sink.write(new Uint8Array(narrowed.buffer, narrowed.byteOffset, narrowed.byteLength))
  }
}

/** Writes one safetensors file, whole or not at all ({@link writeTensors}, {@link writeFileAtomic}). */
export function writeSafetensors(
  path: string,
  tensors: readonly TensorSource[],
  options: SafetensorsWriteOptions & WriteOptions = {},
): Promise<FileRecord> {
  return writeFileAtomic(path, (sink) => writeTensors(sink, tensors, options), options)
}
