import { open, type FileHandle } from 'node:fs/promises'
import { CheckpointError, InvalidInputError, type CallOptions } from '@selfplay/engine'
import type { WeightFile } from '../graph/index.js'
import { widen } from './half.js'
import { decodeUtf8, excerpt, isObject, parseJsonObject } from './json.js'
import { damaged, refuseSpecialFile, systemFailure } from './problem.js'

/** Bytes per element of each dtype that the format names. */
export const STORED_BYTES = {
  F64: 8,
  F32: 4,
  F16: 2,
  BF16: 2,
  I64: 8,
  I32: 4,
  I16: 2,
  I8: 1,
  U64: 8,
  U32: 4,
  U16: 2,
  U8: 1,
  BOOL: 1,
  F8_E4M3: 1,
  F8_E5M2: 1,
} as const

/** A dtype as safetensors spells it. */
export type StoredDType = keyof typeof STORED_BYTES

/** One tensor of a safetensors file: where its bytes lie. Nothing of it is in memory. */
export interface TensorEntry {
  readonly name: string
  readonly dtype: StoredDType
  readonly shape: readonly number[]
  /** The file, and the tensor's bytes in it, counted from the file's first byte. */
  readonly path: string
  readonly offset: number
  readonly length: number
}

/** A safetensors file whose header was read and checked. */
export interface SafetensorsFile {
  readonly path: string
  readonly metadata: Readonly<Record<string, string>>
  /** In the order of their bytes. */
  readonly tensors: ReadonlyMap<string, TensorEntry>
}

/** The longest header that the format allows, in bytes. */
const MAX_HEADER = 100_000_000
/** Bytes read at a time: the longest that an abort has to wait for. */
const PIECE = 32 << 20

/** The number of elements of a shape. */
export const elementCount = (shape: readonly number[]): number => shape.reduce((product, size) => product * size, 1)

/**
 * Reads and checks the header of a safetensors file; the tensors stay on disk until {@link readTensor}.
 *
 * Every byte after the header must belong to exactly one tensor, and every tensor must have the bytes that its dtype and
 * shape need (https://huggingface.co/docs/safetensors).
 *
 * @throws CheckpointError naming the file, what was expected and what came.
 */
export async function openSafetensors(path: string, { signal }: CallOptions = {}): Promise<SafetensorsFile> {
  signal?.throwIfAborted()
  const file = await openForReading(path)
  try {
    const size = (await file.stat()).size
    if (size < 8) throw damaged(path, 'a safetensors file of at least 8 bytes', `${size} bytes`)
    const prefix = Buffer.alloc(8)
    await readFully(file, path, prefix, 0, signal)
    const headerLength = prefix.readBigUInt64LE()
    if (headerLength > MAX_HEADER)
      throw damaged(path, `a header of at most ${MAX_HEADER} bytes`, `a header length of ${headerLength}`)
    const start = 8 + Number(headerLength)
    if (start > size) {
      throw damaged(
        path,
        `a header of ${headerLength} bytes`,
        `a file of ${size} bytes: it was cut short, or is no safetensors file`,
      )
    }
    const header = Buffer.alloc(start - 8)
    await readFully(file, path, header, 8, signal)
    return parseHeader(path, decodeUtf8(header, `${path} (header)`), start, size)
  } catch (error) {
    throw systemFailure(error, 'read', path)
  } finally {
    await file.close()
  }
}

async function openForReading(path: string): Promise<FileHandle> {
  await refuseSpecialFile(path)
  try {
    return await open(path, 'r')
  } catch (error) {
    throw systemFailure(error, 'read', path)
  }
}

async function readFully(file: FileHandle, path: string, into: Uint8Array, position: number, signal?: AbortSignal) {
  for (let at = 0; at < into.length;) {
    signal?.throwIfAborted()
    const { bytesRead } = await file.read(into, at, Math.min(PIECE, into.length - at), position + at)
    if (bytesRead === 0) {
      throw damaged(path, `${into.length} bytes from byte ${position} on`, `${at} bytes: the file was cut short`)
    }
    at += bytesRead
  }
}

function parseHeader(path: string, text: string, start: number, size: number): SafetensorsFile {
  const header = parseJsonObject(text, `${path} (header)`)
  const { __metadata__: metadata = {}, ...described } = header
  if (!isObject(metadata) || Object.values(metadata).some((value) => typeof value !== 'string')) {
    throw damaged(path, 'a __metadata__ of strings', excerpt(JSON.stringify(metadata)))
  }
  const entries = Object.entries(described).map(([name, info]) => parseEntry(path, name, info, start))
  entries.sort((a, b) => a.offset - b.offset || a.length - b.length)
  let end = start
  for (const { name, offset, length } of entries) {
    if (offset !== end) {
      const got = `byte ${offset - start} (${offset < end ? 'overlapping the one before' : 'leaving a gap'})`
      throw damaged(path, `tensor ${excerpt(name)} to begin at byte ${end - start} of the data`, got)
    }
    end = offset + length
  }
  if (end !== size) {
    const got = `${size - start} (${size < end ? 'the file was cut short' : 'bytes that no tensor owns'})`
    throw damaged(path, `${end - start} bytes of data after the header`, got)
  }
  return {
    path,
    metadata: metadata as Record<string, string>,
    tensors: new Map(entries.map((entry) => [entry.name, entry])),
  }
}

const isSize = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0

function parseEntry(path: string, name: string, info: unknown, start: number): TensorEntry {
  const place = `${path}, tensor ${excerpt(name)}`
  const wrong = (expected: string, got: unknown) => damaged(place, expected, excerpt(JSON.stringify(got) ?? 'nothing'))
  if (!isObject(info)) throw wrong('an object with dtype, shape and data_offsets', info)
  const { dtype, shape, data_offsets: offsets, ...rest } = info
  if (Object.keys(rest).length > 0) throw wrong('only dtype, shape and data_offsets', rest)
  if (typeof dtype !== 'string' || !Object.hasOwn(STORED_BYTES, dtype)) {
    throw wrong(`a dtype of ${Object.keys(STORED_BYTES).join(', ')}`, dtype)
  }
  if (!Array.isArray(shape) || !shape.every(isSize)) throw wrong('a shape of sizes >= 0', shape)
  if (!Array.isArray(offsets) || offsets.length !== 2 || !offsets.every(isSize) || offsets[0]! > offsets[1]!) {
    throw wrong('data_offsets [begin, end] with 0 <= begin <= end', offsets)
  }
  const [begin, end] = offsets as [number, number]
  const length = elementCount(shape) * STORED_BYTES[dtype as StoredDType]
  if (end - begin !== length) {
    throw damaged(place, `${length} bytes for ${dtype} [${shape.join(', ')}]`, `data_offsets of ${end - begin} bytes`)
  }
  return { name, dtype: dtype as StoredDType, shape, path, offset: start + begin, length }
}

const isFloat = (dtype: StoredDType): dtype is 'F32' | 'F16' | 'BF16' =>
  dtype === 'F32' || dtype === 'F16' || dtype === 'BF16'

/** Reads the raw bytes of a tensor into memory that is there already; `target.byteLength` must be `entry.length`. */
async function readBytes(entry: TensorEntry, target: Uint8Array, signal: AbortSignal | undefined): Promise<void> {
  signal?.throwIfAborted()
  const file = await openForReading(entry.path)
  try {
    await readFully(file, entry.path, target, entry.offset, signal)
  } catch (error) {
    throw systemFailure(error, 'read', entry.path)
  } finally {
    await file.close()
  }
}

/**
 * Reads a float tensor of any stored width as float32. Needs no memory beyond the result: 16-bit tensors are read into its
 * second half and widened in place.
 *
 * @param options.into Where to put it, float32 [elements of the shape]; a new array (off the JavaScript heap) by default.
 * @throws CheckpointError when the tensor is not F32, F16 or BF16, or the file changed since it was opened.
 */
export async function readTensor(
  entry: TensorEntry,
  options: CallOptions & { readonly into?: Float32Array } = {},
): Promise<Float32Array> {
  if (!isFloat(entry.dtype)) {
    throw damaged(`${entry.path}, tensor ${excerpt(entry.name)}`, 'a dtype of F32, F16 or BF16', entry.dtype)
  }
  const count = elementCount(entry.shape)
  const target = options.into ?? new Float32Array(new ArrayBuffer(count * 4))
  if (target.length !== count) {
    throw new InvalidInputError(
      `tensor ${entry.name} [${entry.shape.join(', ')}] needs memory for ${count} numbers, got ${target.length}`,
      { tensor: entry.name, expected: count, got: target.length },
    )
  }
  const end = target.byteOffset + target.byteLength
  await readBytes(entry, new Uint8Array(target.buffer, end - entry.length, entry.length), options.signal)
  if (entry.dtype !== 'F32') widen(entry.dtype, new Uint16Array(target.buffer, end - entry.length, count), target)
  return target
}

/** The typed arrays that {@link readRawTensor} gives. */
export interface RawArrays {
  F32: Float32Array
  F16: Uint16Array
  BF16: Uint16Array
  I64: BigInt64Array
  I32: Int32Array
  U8: Uint8Array
}

const RAW = {
  F32: Float32Array,
  F16: Uint16Array,
  BF16: Uint16Array,
  I64: BigInt64Array,
  I32: Int32Array,
  U8: Uint8Array,
}

/**
 * Reads a tensor as it is stored.
 * @throws CheckpointError when it is stored as another dtype than `dtype`.
 */
export async function readRawTensor<D extends keyof RawArrays>(
  entry: TensorEntry,
  dtype: D,
  { signal }: CallOptions = {},
): Promise<RawArrays[D]> {
  if (entry.dtype !== dtype)
    throw damaged(`${entry.path}, tensor ${excerpt(entry.name)}`, `the dtype ${dtype}`, entry.dtype)
  const buffer = new ArrayBuffer(entry.length)
  await readBytes(entry, new Uint8Array(buffer), signal)
  return new RAW[dtype](buffer) as RawArrays[D]
}

/**
 * Where a float32 tensor lies, for a runtime that maps weights from their file; undefined for every other dtype and where
 * it does not begin at a multiple of 4 bytes (both must be read).
 */
export function weightFile({ dtype, path, offset, length }: TensorEntry): WeightFile | undefined {
  return dtype === 'F32' && offset % 4 === 0 ? { path, offset, length } : undefined
}

/** The entry of that name. @throws CheckpointError naming the file or folder and some names that are there. */
export function requireTensor(tensors: ReadonlyMap<string, TensorEntry>, name: string, place: string): TensorEntry {
  const entry = tensors.get(name)
  if (entry) return entry
  const some = [...tensors.keys()].slice(0, 3).map(excerpt).join(', ')
  throw new CheckpointError(`${place}: expected a tensor ${excerpt(name)}, got ${tensors.size} others (${some}, ...)`, {
    path: place,
    tensor: name,
  })
}
