import { DisposedError, InvalidInputError } from '@selfplay/engine'
import type { DType } from '../graph/index.js'
import { DTYPES, sizeOf } from './dtypes.js'
import type { HostArrays, Tensor } from './types.js'

/** Buffers from this size on are given back to the system at dispose, and not only when they are collected. */
const RECLAIM_BYTES = 1 << 16

/** Gives the pages of a detached buffer, which nobody reads any more, back to the system. */
export type Reclaim = (buffer: ArrayBuffer) => void

interface Parts<D extends DType> {
  readonly dtype: D
  readonly dims: readonly number[]
  readonly array: HostArrays[D]
  /** Set where the tensor owns the memory. */
  readonly reclaim?: Reclaim | undefined
  readonly owns?: boolean
  readonly parent?: HostTensor
}

/**
 * A tensor in the memory of this process, which every CPU runtime reads and writes directly.
 *
 * Whoever needs the memory to stay (a run in flight, a bound run, a session that has it as a weight, a view) pins the
 * tensor; it is freed when it has been disposed and nothing pins it.
 */
export class HostTensor<D extends DType = DType> implements Tensor<D> {
  readonly dtype: D
  readonly dims: readonly number[]
  readonly size: number
  readonly #parts: Parts<D>
  #array: HostArrays[D] | undefined
  #pins = 0
  #disposed = false
  #onFree: (() => void) | undefined

  constructor(parts: Parts<D>) {
    this.dtype = parts.dtype
    this.dims = Object.freeze([...parts.dims])
    this.size = parts.array.length
    this.#parts = { ...parts, dims: this.dims }
    this.#array = parts.array
    parts.parent?.pin()
  }

  get data(): HostArrays[D] {
    if (this.#disposed) this.#refuse()
    return this.array
  }

  /** The memory, for whoever has pinned the tensor: also where it was disposed meanwhile. */
  get array(): HostArrays[D] {
    return this.#array ?? this.#refuse()
  }

  read(): Promise<HostArrays[D]> {
    return settle(() => this.data.slice() as HostArrays[D])
  }

  write(source: HostArrays[D]): Promise<void> {
    return settle(() => {
      const target = this.data
      if (source.constructor !== target.constructor || source.length !== target.length) {
        throw new InvalidInputError(
          `expected ${target.constructor.name} of length ${target.length} to write into the ${this.toString()}, ` +
            `got ${source.constructor.name} of length ${source.length}`,
        )
      }
      ;(target as Float32Array).set(source as Float32Array)
    })
  }

  dispose(): void {
    if (this.#disposed) return
    this.#disposed = true
    if (this.#pins === 0) this.#free()
  }

  /** Keeps the memory until `unpin`. @throws DisposedError */
  pin(): void {
    if (this.#disposed) this.#refuse()
    this.#pins++
  }

  unpin(): void {
    this.#pins--
    if (this.#disposed && this.#pins === 0) this.#free()
  }

  /** Has `action` run when the memory is freed. */
  onFree(action: () => void): void {
    this.#onFree = action
  }

  toString(): string {
    return `${this.dtype} tensor [${this.dims.join(', ')}]`
  }

  #refuse(): never {
    throw new DisposedError(
      `the ${this.toString()} was disposed: it can no longer be read, written or fed to a session`,
    )
  }

  #free(): void {
    const array = this.#array
    if (!array) return
    this.#array = undefined
    this.#onFree?.()
    const { owns, reclaim, parent } = this.#parts
    if (owns && array.byteLength >= RECLAIM_BYTES && array.buffer instanceof ArrayBuffer) {
      // The transfer empties every array over the buffer, so that a stale one reads nothing instead of freed memory.
      const detached = structuredClone(array.buffer, { transfer: [array.buffer] })
      reclaim?.(detached)
    }
    parent?.unpin()
  }
}

/** Zeroed memory. Never from a typed array's own constructor: V8 moves small ones about. */
export function allocateHost<D extends DType>(dtype: D, dims: readonly number[], reclaim?: Reclaim): HostTensor<D> {
  const size = sizeOf(dims)
  const { bytes, array } = DTYPES[dtype]
  const buffer = new ArrayBuffer(Math.max(size * bytes, 8))
  return new HostTensor({ dtype, dims, array: new array(buffer, 0, size), owns: true, reclaim })
}

/** A tensor over the array itself. */
export function wrapHost<D extends DType>(dtype: D, data: HostArrays[D], dims: readonly number[]): HostTensor<D> {
  const size = sizeOf(dims)
  const expected = DTYPES[dtype].array
  if (!(data instanceof expected)) {
    throw new InvalidInputError(`expected ${expected.name} for a ${dtype} tensor, got ${describe(data)}`, { dtype })
  }
  if (data.length !== size) {
    throw new InvalidInputError(
      `expected ${size} elements for shape [${dims.join(', ')}], got an array of length ${data.length}`,
      { dims: [...dims], expected: size, got: data.length },
    )
  }
  // Asking for the buffer makes V8 move a small array off its heap, for good.
  void data.buffer
  if (size > 0) return new HostTensor({ dtype, dims, array: data })
  return new HostTensor({ dtype, dims, array: new expected(new ArrayBuffer(8), 0, 0) as HostArrays[D] })
}

/** A tensor over part of `tensor`, from element `offset` on. */
export function viewHost<D extends DType>(tensor: Tensor<D>, offset: number, dims: readonly number[]): HostTensor<D> {
  const parent = asHost(tensor, 'the tensor to view')
  const size = sizeOf(dims)
  if (!Number.isSafeInteger(offset) || offset < 0 || offset + size > parent.size) {
    throw new InvalidInputError(
      `a view of [${dims.join(', ')}] (${size} elements) at offset ${offset} does not lie inside the ${parent.toString()} ` +
        `(${parent.size} elements)`,
      { offset, size, available: parent.size },
    )
  }
  const whole = parent.data
  const array = new DTYPES[tensor.dtype].array(
    whole.buffer as ArrayBufferLike,
    whole.byteOffset + offset * whole.BYTES_PER_ELEMENT,
    size,
  ) as HostArrays[D]
  return new HostTensor({ dtype: tensor.dtype, dims, array, parent: parent as unknown as HostTensor })
}

/** The host tensor behind an interface. @throws InvalidInputError for anything that no CPU runtime made. */
export function asHost<D extends DType>(tensor: Tensor<D>, what: string): HostTensor<D> {
  if (tensor instanceof HostTensor) return tensor as HostTensor<D>
  throw new InvalidInputError(
    `${what}: expected a tensor made by allocate(), tensor(), view() or run() of a CPU runtime, got ${describe(tensor)}`,
  )
}

function describe(value: unknown): string {
  if (value === null || typeof value !== 'object') return String(value)
  return value.constructor?.name ?? 'an object'
}

/** The outcome of a synchronous action as a promise. */
function settle<T>(action: () => T): Promise<T> {
  return new Promise((resolve) => resolve(action()))
}
