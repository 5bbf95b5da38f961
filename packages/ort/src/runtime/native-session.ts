import { type CallOptions, DisposedError } from '@selfplay/engine'
import type { SerialisedModel } from '../graph/index.js'
import { type CApi, type Pointer, pointers } from './c-api.js'
import { RuntimeError } from './errors.js'
import { allocateHost, asHost, type HostTensor, type Reclaim } from './host-tensor.js'
import { CStrings, type NativeValues } from './native-values.js'
import { pinAll } from './pins.js'
import { RunLane } from './run-lane.js'
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
  /** Whether runs may overlap. */
  readonly concurrent: boolean
  /** Frees what the session was made with. */
  readonly onDispose: () => void
}

/** A session on the C API. Runs happen on another thread; the results are written where the tensors lie. */
export class NativeSession implements Session {
  readonly #parts: NativeSessionParts
  readonly #signature: Signature<HostTensor>
  /** Where runs wait for each other: one for all or, where they may overlap, one for each call and each bound run. */
  readonly #lanes = new Set<RunLane>()
  readonly #bound = new Set<NativeBoundRun>()
  readonly #names: CStrings
  readonly #inputNames: BigUint64Array
  #disposed: Promise<void> | undefined

  constructor(parts: NativeSessionParts) {
    const { inputs, outputs, shapeInputs } = parts.model
    this.#parts = parts
    this.#signature = new Signature(parts.model, asHost)
    const inputNames = [...inputs, ...shapeInputs].map(({ name }) => name)
    this.#names = new CStrings(parts.api, [...inputNames, ...outputs.map(({ name }) => name)])
    this.#inputNames = this.#names.list(inputNames)
    if (!parts.concurrent) this.#openLane()
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
    const lane = this.#lane()
    try {
      const done = await lane.queue.run(() => this.#runOnce(lane, checked, results, signal), signal)
      return Object.fromEntries(checked.outputs.map(({ spec }, i) => [spec.name, done[i]!]))
    } finally {
      unpin()
      if (this.#parts.concurrent) this.#closeLane(lane)
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
    const lane = this.#lane()
    const bound: NativeBoundRun = new NativeBoundRun({
      run: (signal) => {
        this.#checkAlive()
        return lane.queue.run(
          () => lane.invoke(signal, (options) => api.callAsync('RunWithBinding', handle, options, binding)),
          signal,
        )
      },
      runSync: () => {
        this.#checkAlive()
        if (lane.queue.busy)
          throw new RuntimeError('runSync: another run of this session is in flight, wait for it first')
        api.call('RunWithBinding', handle, lane.options(false), binding)
      },
      free: () => {
        this.#bound.delete(bound)
        const release = () => {
          api.release('ReleaseIoBinding', binding)
          unpin()
          if (this.#parts.concurrent) this.#closeLane(lane)
        }
        if (!lane.queue.busy) release()
        else void lane.queue.run(async () => release()) // not before the runs that were started have ended
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
    await Promise.all([...this.#lanes].map((lane) => lane.queue.run(async () => lane.release())))
    api.release('ReleaseSession', handle)
    onDispose()
  }

  #lane(): RunLane {
    const [shared] = this.#lanes
    return this.#parts.concurrent || !shared ? this.#openLane() : shared
  }

  #openLane(): RunLane {
    const { api, shrink, model } = this.#parts
    const lane = new RunLane(api, shrink, model.shapeInputs)
    this.#lanes.add(lane)
    return lane
  }

  #closeLane(lane: RunLane): void {
    this.#lanes.delete(lane)
    lane.release()
  }

  #checkAlive(): void {
    if (this.#disposed) throw new DisposedError('the session was disposed: it can no longer run')
  }

  async #runOnce(
    lane: RunLane,
    checked: Checked<HostTensor>,
    results: readonly (HostTensor | undefined)[],
    signal: AbortSignal | undefined,
  ): Promise<HostTensor[]> {
    const { api, values, handle, reclaim } = this.#parts
    checked.shapes.forEach((sizes, i) => writeShape(lane.shapes[i]!, sizes))
    const inputs = [...checked.inputs, ...lane.shapes]
    const feeds = pointers(inputs.length)
    inputs.forEach((tensor, i) => (feeds[i] = values.of(tensor)))
    const fetches = pointers(results.length)
    results.forEach((tensor, i) => (fetches[i] = tensor ? values.of(tensor) : 0n))
    const names = this.#names.list(checked.outputs.map(({ spec }) => spec.name))
    await lane.invoke(signal, (options) => {
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
