import { setImmediate } from 'node:timers/promises'
import { type CallOptions, DisposedError, InvalidInputError } from '@selfplay/engine'
import type { DType, SerialisedModel } from '../graph/index.js'
import type { BindingHandle, BindingLibrary, BindingTensor } from './binding-library.js'
import { LOG_FATAL } from './c-api.js'
import { DTYPES } from './dtypes.js'
import { messageOf, RuntimeError } from './errors.js'
import { allocateHost, asHost, type HostTensor } from './host-tensor.js'
import { pinAll } from './pins.js'
import { SerialQueue } from './serial.js'
import { type Checked, Signature } from './signature.js'
import type { BoundRun, HostArray, Session, Tensor } from './types.js'

export interface BindingSessionParts {
  readonly library: BindingLibrary
  readonly handle: BindingHandle
  readonly model: SerialisedModel
  /** Weights that are fed at each run. */
  readonly weights: readonly (readonly [name: string, tensor: HostTensor])[]
  readonly shrink: boolean
  readonly onDispose: () => void
}

/** Feeds and fetches in onnxruntime-node's form. */
interface Prepared {
  readonly feeds: Record<string, BindingTensor>
  readonly fetches: Record<string, BindingTensor | null>
}

/** A session of onnxruntime-node's binding. */
export class BindingSession implements Session {
  readonly #parts: BindingSessionParts
  readonly #signature: Signature<HostTensor>
  readonly #queue = new SerialQueue()
  readonly #weights: Readonly<Record<string, BindingTensor>>
  readonly #bound = new Set<BoundRun>()
  #disposed: Promise<void> | undefined

  constructor(parts: BindingSessionParts) {
    this.#parts = parts
    this.#signature = new Signature(parts.model, asHost)
    this.#weights = Object.fromEntries(parts.weights.map(([name, tensor]) => [name, this.#wrap(tensor)]))
  }

  async run(
    inputs: Readonly<Record<string, Tensor>>,
    outputs: Readonly<Record<string, Tensor | null>>,
    { signal }: CallOptions = {},
  ): Promise<Record<string, Tensor>> {
    this.#checkAlive()
    const checked = this.#signature.check(inputs, outputs)
    const given = checked.outputs.flatMap(({ tensor }) => tensor ?? [])
    const unpin = pinAll([...checked.inputs, ...given])
    try {
      return await this.#queue.run(async () => {
        const results = await this.#invoke(this.#prepare(checked), signal)
        return Object.fromEntries(
          checked.outputs.map(({ spec, tensor }) => [spec.name, tensor ?? adopt(spec.dtype, results[spec.name]!)]),
        )
      }, signal)
    } finally {
      unpin()
    }
  }

  bind(inputs: Readonly<Record<string, Tensor>>, outputs: Readonly<Record<string, Tensor>>): BoundRun {
    this.#checkAlive()
    const checked = this.#signature.check(inputs, outputs, 'all')
    const prepared = this.#prepare(checked)
    const unpin = pinAll([...checked.inputs, ...checked.outputs.map(({ tensor }) => tensor!)])
    let disposed = false
    const checkAlive = () => {
      this.#checkAlive()
      if (disposed) throw new DisposedError('the bound run was disposed: bind again')
    }
    const bound: BoundRun = {
      run: async ({ signal } = {}) => {
        checkAlive()
        await this.#queue.run(() => this.#invoke(prepared, signal), signal)
      },
      runSync: () => {
        checkAlive()
        if (this.#queue.busy)
          throw new RuntimeError('runSync: another run of this session is in flight, wait for it first')
        this.#call(prepared)
      },
      dispose: () => {
        if (disposed) return
        disposed = true
        this.#bound.delete(bound)
        if (!this.#queue.busy) unpin()
        else void this.#queue.run(async () => unpin())
      },
    }
    this.#bound.add(bound)
    return bound
  }

  dispose(): Promise<void> {
    this.#disposed ??= this.#end()
    return this.#disposed
  }

  async #end(): Promise<void> {
    for (const bound of this.#bound) bound.dispose()
    await this.#queue.run(async () => {
      this.#parts.handle.dispose()
      this.#parts.onDispose()
    })
  }

  #checkAlive(): void {
    if (this.#disposed) throw new DisposedError('the session was disposed: it can no longer run')
  }

  #prepare({ inputs, outputs, shapes }: Checked<HostTensor>): Prepared {
    const { model } = this.#parts
    const feeds: Record<string, BindingTensor> = { ...this.#weights }
    model.inputs.forEach(({ name }, i) => (feeds[name] = this.#wrap(inputs[i]!)))
    model.shapeInputs.forEach(({ name }, i) => {
      const sizes = allocateHost('int64', [shapes[i]!.length])
      shapes[i]!.forEach((size, axis) => (sizes.array[axis] = BigInt(size)))
      feeds[name] = this.#wrap(sizes)
    })
    const fetches = outputs.map(({ spec, tensor }) => {
      refuseBfloat16(spec.name, spec.dtype)
      return [spec.name, tensor && this.#wrap(tensor)] as const
    })
    return { feeds, fetches: Object.fromEntries(fetches) }
  }

  #wrap(tensor: HostTensor): BindingTensor {
    refuseBfloat16(tensor.toString(), tensor.dtype)
    if (tensor.array.buffer instanceof SharedArrayBuffer) {
      throw new InvalidInputError(
        `the ${tensor.toString()} lies in a SharedArrayBuffer, which onnxruntime-node's binding refuses: copy it, or use the native runtime`,
      )
    }
    return new this.#parts.library.Tensor(tensor.dtype, tensor.array, tensor.dims)
  }

  /** A run that lets the event loop turn before it; once begun, it cannot be ended. */
  async #invoke(prepared: Prepared, signal: AbortSignal | undefined): Promise<Record<string, BindingTensor>> {
    await setImmediate()
    signal?.throwIfAborted()
    return this.#call(prepared)
  }

  #call({ feeds, fetches }: Prepared): Record<string, BindingTensor> {
    const { handle, shrink } = this.#parts
    const extra = shrink ? { extra: { memory: { enable_memory_arena_shrinkage: 'cpu:0' } } } : {}
    try {
      return handle.run(feeds, fetches, { logSeverityLevel: LOG_FATAL, ...extra })
    } catch (cause) {
      throw new RuntimeError(`onnxruntime: ${messageOf(cause)}`, {}, { cause })
    }
  }
}

/** A tensor over the memory of one that onnxruntime-node allocated. */
function adopt(dtype: DType, result: BindingTensor): HostTensor {
  const { array } = DTYPES[dtype]
  const data = result.data as HostArray
  const tensor = allocateHost(dtype, result.dims)
  // Its arrays may be of another class for the same bytes (Float16Array), and small ones lie on V8's heap.
  const source = new array(data.buffer, data.byteOffset, data.length)
  ;(tensor.array as Float32Array).set(source as Float32Array)
  return tensor
}

function refuseBfloat16(what: string, dtype: DType): void {
  if (dtype !== 'bfloat16') return
  throw new InvalidInputError(
    `${what}: onnxruntime-node's binding has no bfloat16 inputs and outputs; use the native runtime, or cast in the graph`,
    { dtype },
  )
}
