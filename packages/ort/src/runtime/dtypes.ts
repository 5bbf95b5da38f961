import { InvalidInputError } from '@selfplay/engine'
import type { DType } from '../graph/index.js'
import type { HostArrays } from './types.js'

interface DTypeFacts<D extends DType> {
  /** Number of the type in ONNX (TensorProto.DataType). */
  readonly onnx: number
  /** Bytes per element. */
  readonly bytes: number
  readonly array: new (buffer: ArrayBufferLike, byteOffset: number, length: number) => HostArrays[D]
}

/** Facts of every dtype. */
export const DTYPES: { readonly [D in DType]: DTypeFacts<D> } = {
  float32: { onnx: 1, bytes: 4, array: Float32Array },
  uint8: { onnx: 2, bytes: 1, array: Uint8Array },
  int32: { onnx: 6, bytes: 4, array: Int32Array },
  int64: { onnx: 7, bytes: 8, array: BigInt64Array },
  bool: { onnx: 9, bytes: 1, array: Uint8Array },
  float16: { onnx: 10, bytes: 2, array: Uint16Array },
  float64: { onnx: 11, bytes: 8, array: Float64Array },
  bfloat16: { onnx: 16, bytes: 2, array: Uint16Array },
}

/** Number of elements of a shape. @throws InvalidInputError where it is no shape. */
export function sizeOf(dims: readonly number[]): number {
  for (const dim of dims) {
    if (!Number.isSafeInteger(dim) || dim < 0) {
      throw new InvalidInputError(`a shape holds integers >= 0, got [${dims.join(', ')}]`, { dims: [...dims] })
    }
  }
  return dims.reduce((product, dim) => product * dim, 1)
}
