import type { DType } from '../graph/index.js'
import { type CApi, int64s, type Pointer, pointers } from './c-api.js'
import { DTYPES } from './dtypes.js'
import { allocateHost, type HostTensor, type Reclaim } from './host-tensor.js'
import { RuntimeError } from './errors.js'

interface Handle {
  value: Pointer | undefined
}

/** The OrtValues of tensors: made when first needed, released with the tensor. */
export class NativeValues {
  readonly #api: CApi
  readonly #handles = new WeakMap<HostTensor, Handle>()
  readonly #collected: FinalizationRegistry<Handle>

  constructor(api: CApi) {
    this.#api = api
    this.#collected = new FinalizationRegistry((handle) => this.#release(handle))
  }

  /** The OrtValue over a tensor's memory. It stays valid for as long as the tensor is pinned. */
  of(tensor: HostTensor): Pointer {
    const known = this.#handles.get(tensor)?.value
    if (known !== undefined) return known
    const { array } = tensor
    // A zero-size array has no address of its own.
    const address = this.#api.koffi.address(array.length > 0 ? array : array.buffer) as Pointer
    const handle: Handle = { value: this.create(tensor.dtype, tensor.dims, address, array.byteLength) }
    this.#handles.set(tensor, handle)
    this.#collected.register(tensor, handle)
    tensor.onFree(() => this.#release(handle))
    return handle.value!
  }

  /** An OrtValue over memory that the caller keeps. Release it with `ReleaseValue`. */
  create(dtype: DType, dims: readonly number[], address: Pointer, byteLength: number): Pointer {
    const { onnx } = DTYPES[dtype]
    const shape = int64s(dims)
    const { cpuMemory } = this.#api
    return this.#api.make('CreateTensorWithDataAsOrtValue', cpuMemory, address, byteLength, shape, dims.length, onnx)
  }

  /** A copy of an OrtValue that onnxruntime allocated, as a tensor. */
  copyOut(dtype: DType, value: Pointer, reclaim: Reclaim): HostTensor {
    const api = this.#api
    const info = api.make('GetTensorTypeAndShape', value)
    let dims: number[]
    try {
      const rank = Number(api.make('GetDimensionsCount', info))
      const sizes = int64s(Array.from({ length: rank }, () => 0))
      api.call('GetDimensions', info, sizes, rank)
      dims = Array.from(sizes.subarray(0, rank), Number)
    } finally {
      api.release('ReleaseTensorTypeAndShapeInfo', info)
    }
    const tensor = allocateHost(dtype, dims, reclaim)
    const { array } = tensor
    if (array.byteLength > 0) {
      const source = api.koffi.view(api.make('GetTensorMutableData', value), array.byteLength)
      new Uint8Array(array.buffer).set(new Uint8Array(source))
    }
    return tensor
  }

  #release(handle: Handle): void {
    if (handle.value !== undefined) this.#api.release('ReleaseValue', handle.value)
    handle.value = undefined
  }
}

/** C strings that stay where they are, and the addresses of them. */
export class CStrings {
  readonly #addresses = new Map<string, Pointer>()
  readonly #buffers: Buffer[] = []

  constructor(api: CApi, names: readonly string[]) {
    for (const name of names) {
      const text = Buffer.from(`${name}\0`, 'utf8')
      const buffer = Buffer.from(new ArrayBuffer(Math.max(text.length, 8)))
      text.copy(buffer)
      this.#buffers.push(buffer)
      this.#addresses.set(name, api.koffi.address(buffer) as Pointer)
    }
  }

  /** An array of addresses, as `char **`. */
  list(names: readonly string[]): BigUint64Array {
    const list = pointers(names.length)
    names.forEach((name, i) => {
      const address = this.#addresses.get(name)
      if (address === undefined) throw new RuntimeError(`no address for "${name}"`)
      list[i] = address
    })
    return list
  }
}
