import type { DType } from './types.js'

/** Bytes per element. */
export const bytesOf: Readonly<Record<DType, number>> = {
  float32: 4,
  float64: 8,
  float16: 2,
  bfloat16: 2,
  int32: 4,
  int64: 8,
  bool: 1,
  uint8: 1,
}

/** `TensorProto.DataType` of each dtype. */
export const onnxDataType: Readonly<Record<DType, number>> = {
  float32: 1,
  uint8: 2,
  int32: 6,
  int64: 7,
  bool: 9,
  float16: 10,
  float64: 11,
  bfloat16: 16,
}

export const floats: readonly DType[] = ['float32', 'float64', 'float16', 'bfloat16']
const integers: readonly DType[] = ['int32', 'int64']
export const numbers: readonly DType[] = [...floats, ...integers]
export const indices: readonly DType[] = ['int32', 'int64']
export const anything: readonly DType[] = [...numbers, 'bool', 'uint8']
export const booleans: readonly DType[] = ['bool']

export function isFloat(dtype: DType): boolean {
  return floats.includes(dtype)
}

const scratch = new DataView(new ArrayBuffer(4))

/** The nearest float16 (ties to even), as bits. */
export function toFloat16(value: number): number {
  scratch.setFloat32(0, value)
  const bits = scratch.getUint32(0)
  const sign = (bits >>> 16) & 0x8000
  const magnitude = Math.abs(Math.fround(value))
  if (Number.isNaN(value)) return 0x7e00
  if (magnitude >= 65520) return sign | 0x7c00
  if (magnitude < 2 ** -14) return sign | roundHalfEven(magnitude * 2 ** 24)
  const exponent = ((bits >>> 23) & 0xff) - 127
  const fraction = roundHalfEven((magnitude / 2 ** exponent - 1) * 1024)
  return sign | (((exponent + 15) << 10) + fraction)
}

/** The nearest bfloat16 (ties to even), as bits. */
export function toBfloat16(value: number): number {
  if (Number.isNaN(value)) return 0x7fc0
  scratch.setFloat32(0, value)
  const bits = scratch.getUint32(0)
  return ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16) & 0xffff
}

function roundHalfEven(value: number): number {
  const below = Math.floor(value)
  const rest = value - below
  if (rest !== 0.5) return Math.round(value)
  return below % 2 === 0 ? below : below + 1
}

/** Numbers as little-endian raw bytes of a dtype, the layout of `TensorProto.raw_data`. */
export function encodeNumbers(dtype: DType, values: ArrayLike<number | bigint>): Uint8Array {
  const bytes = new Uint8Array(values.length * bytesOf[dtype])
  const view = new DataView(bytes.buffer)
  const write = writers[dtype]
  for (let i = 0; i < values.length; i++) write(view, i * bytesOf[dtype], values[i]!)
  return bytes
}

const writers: Readonly<Record<DType, (view: DataView, at: number, value: number | bigint) => void>> = {
  float32: (view, at, value) => view.setFloat32(at, Number(value), true),
  float64: (view, at, value) => view.setFloat64(at, Number(value), true),
  float16: (view, at, value) => view.setUint16(at, toFloat16(Number(value)), true),
  bfloat16: (view, at, value) => view.setUint16(at, toBfloat16(Number(value)), true),
  int32: (view, at, value) => view.setInt32(at, Number(value), true),
  int64: (view, at, value) => view.setBigInt64(at, BigInt(value), true),
  bool: (view, at, value) => view.setUint8(at, Number(value) === 0 ? 0 : 1),
  uint8: (view, at, value) => view.setUint8(at, Number(value)),
}
