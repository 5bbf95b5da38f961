import { type CallOptions, DisposedError } from '@selfplay/engine'
import type { SerialisedModel } from '../graph/index.js'
import { type CApi, LOG_FATAL, type Pointer, pointers } from './c-api.js'
import { RuntimeError } from './errors.js'
import { allocateHost, asHost, type HostTensor, type Reclaim } from './host-tensor.js'
import { CStrings, type NativeValues } from './native-values.js'
import { pinAll } from './pins.js'
import { SerialQueue } from './serial.js'
import { type Checked, Signature } from './signature.js'
import type { BoundRun, Session, Tensor } from './types.js'

/** What a session holds on to from its creation to its end. */
export interface NativeSessionParts {
  readonly api: CApi
  readonly values: NativeValues
  readonly reclaim: Reclaim
  readonly handle: Pointer
  readonly model: SerialisedModel
  /** Whether to give memory back to the system after each run. */
  readonly shrink: boolean
  /** Frees what the session was made with. */
  readonly onDispose: () => void
}

/** A session on the C API. Runs happen on another thread; the results are written where the tensors lie. */
export class NativeSession implements Session {
  readonly #parts: NativeSessionParts
  readonly #signature: Signature<HostTensor>
  readonly #queue = new SerialQueue()
  readonly #bound = new Set<NativeBoundRun>()
  readonly #names: CStrings
  readonly #inputNames: BigUint64Array
  readonly #shapeTensors: readonly HostTensor<'int64'>[]
  #runOptions: Pointer | undefined
  #disposed: Promise<void> | undefined

  constructor(parts: NativeSessionParts) {
    const { inputs, outputs, shapeInputs } = parts.model
    this.#parts = parts
    this.#signature = new Signature(parts.model, asHost)
    const inputNames = [...inputs, ...shapeInputs].map(({ name }) => name)
    this.#names = new CStrings(parts.api, [...inputNames, ...outputs.map(({ name }) => name)])
    this.#inputNames = this.#names.list(inputNames)
    this.#shapeTensors = shapeInputs.map(({ dims }) => allocateHost('int64', [dims.length]))
  }

  async run(
    inputs: Readonly<Record<string, Tensor>>,
    outputs: Readonly<Record<string, Tensor | null>>,
    { signal }: CallOptions = {},
  ): Promise<Record<string, Tensor>> {
    this.#checkAlive()
    const checked = this.#signature.check(inputs, outputs)
    const { reclaim } = this.#parts
    const results = checked.outputs.map(
      ({ spec, tensor, dims }) => tensor ?? (dims && allocateHost(spec.dtype, dims, reclaim)),
    )
    const unpin = pinAll([...checked.inputs, ...results.filter((tensor) => tensor !== undefined)])
    try {
      const done = await this.#queue.run(() => this.#runOnce(checked, results, signal), signal)
      return Object.fromEntries(checked.outputs.map(({ spec }, i) => [spec.name, done[i]!]))
    } finally {
      unpin()
    }
  }

  bind(inputs: Readonly<Record<string, Tensor>>, outputs: Readonly<Record<string, Tensor>>): BoundRun {
    this.#checkAlive()
    const { api, values, handle, model } = this.#parts
    const checked = this.#signature.check(inputs, outputs, 'all')
    const shapes = checked.shapes.map((sizes) => writeShape(allocateHost('int64', [sizes.length]), sizes))
    const fetched = checked.outputs.map(({ spec, tensor }) => ({ name: spec.name, tensor: tensor! }))
    const unpin = pinAll([...checked.inputs, ...shapes, ...fetched.map(({ tensor }) => tensor)])
    const binding = api.make('CreateIoBinding', handle)
    try {
      const names = [...model.inputs, ...model.shapeInputs].map(({ name }) => name)
      ;[...checked.inputs, ...shapes].forEach((tensor, i) => {
        api.call('BindInput', binding, names[i]!, values.of(tensor))
      })
      for (const { name, tensor } of fetched) api.call('BindOutput', binding, name, values.of(tensor))
    } catch (error) {
      api.release('ReleaseIoBinding', binding)
      unpin()
      throw error
    }
    const bound: NativeBoundRun = new NativeBoundRun({
      run: (signal) => {
        this.#checkAlive()
        return this.#queue.run(
          () => this.#invoke(signal, (options) => api.callAsync('RunWithBinding', handle, options, binding)),
          signal,
        )
      },
      runSync: () => {
        this.#checkAlive()
        if (this.#queue.busy)
          throw new RuntimeError('runSync: another run of this session is in flight, wait for it first')
        api.call('RunWithBinding', handle, this.#options(false), binding)
      },
      free: () => {
        this.#bound.delete(bound)
        // Not before the runs that were started have ended.
        void this.#queue.run(async () => {
          api.release('ReleaseIoBinding', binding)
          unpin()
        })
      },
    })
    this.#bound.add(bound)
    return bound
  }

  dispose(): Promise<void> {
    this.#disposed ??= this.#end()
    return this.#disposed
  }

  async #end(): Promise<void> {
    const { api, handle, onDispose } = this.#parts
    for (const bound of this.#bound) bound.dispose()
    await this.#queue.run(async () => {
      if (this.#runOptions !== undefined) api.release('ReleaseRunOptions', this.#runOptions)
      api.release('ReleaseSession', handle)
      onDispose()
    })
  }

  #checkAlive(): void {
    if (this.#disposed) throw new DisposedError('the session was disposed: it can no longer run')
  }

  async #runOnce(
    checked: Checked<HostTensor>,
    results: readonly (HostTensor | undefined)[],
    signal: AbortSignal | undefined,
  ): Promise<HostTensor[]> {
    const { api, values, handle, reclaim } = this.#parts
    checked.shapes.forEach((sizes, i) => writeShape(this.#shapeTensors[i]!, sizes))
    const inputs = [...checked.inputs, ...this.#shapeTensors]
    const feeds = pointers(inputs.length)
    inputs.forEach((tensor, i) => (feeds[i] = values.of(tensor)))
    const fetches = pointers(results.length)
    results.forEach((tensor, i) => (fetches[i] = tensor ? values.of(tensor) : 0n))
    const names = this.#names.list(checked.outputs.map(({ spec }) => spec.name))
    await this.#invoke(signal, (options) => {
      const fed = [this.#inputNames, feeds, inputs.length] as const
      return api.callAsync('Run', handle, options, ...fed, names, results.length, fetches)
    })
    return results.map((tensor, i) => {
      if (tensor) return tensor
      try {
        return values.copyOut(checked.outputs[i]!.spec.dtype, fetches[i]!, reclaim)
      } finally {
        api.release('ReleaseValue', fetches[i]!)
      }
    })
  }

  /** Makes one call that runs the graph; the signal ends it between two nodes. */
  async #invoke(signal: AbortSignal | undefined, call: (options: Pointer | null) => Promise<void>): Promise<void> {
    const options = this.#options(signal !== undefined)
    if (!signal || options === null) return call(options)
    const { api } = this.#parts
    const stop = () => api.call('RunOptionsSetTerminate', options)
    signal.addEventListener('abort', stop, { once: true })
    try {
      await call(options)
    } catch (error) {
      if (!signal.aborted) throw error
    } finally {
      signal.removeEventListener('abort', stop)
      api.call('RunOptionsUnsetTerminate', options)
    }
    if (signal.aborted) throw signal.reason
  }

  #options(needed: boolean): Pointer | null {
    const { api, shrink } = this.#parts
    if (!needed && !shrink) return null
    if (this.#runOptions === undefined) {
      const options = api.make('CreateRunOptions')
      api.call('RunOptionsSetRunLogSeverityLevel', options, LOG_FATAL)
      if (shrink) api.call('AddRunConfigEntry', options, 'memory.enable_memory_arena_shrinkage', 'cpu:0')
      this.#runOptions = options
    }
    return this.#runOptions
  }
}

class NativeBoundRun implements BoundRun {
  readonly #actions: { run(signal: AbortSignal | undefined): Promise<void>; runSync(): void; free(): void }
  #disposed = false

  constructor(actions: { run(signal: AbortSignal | undefined): Promise<void>; runSync(): void; free(): void }) {
    this.#actions = actions
  }

  async run({ signal }: CallOptions = {}): Promise<void> {
    this.#checkAlive()
    return this.#actions.run(signal)
  }

  runSync(): void {
    this.#checkAlive()
    this.#actions.runSync()
  }

  dispose(): void {
    if (this.#disposed) return
    this.#disposed = true
    this.#actions.free()
  }

  #checkAlive(): void {
    if (this.#disposed) throw new DisposedError('the bound run was disposed: bind again')
  }
}

function writeShape(tensor: HostTensor<'int64'>, sizes: readonly number[]): HostTensor<'int64'> {
  sizes.forEach((size, i) => (tensor.array[i] = BigInt(size)))
  return tensor
}
