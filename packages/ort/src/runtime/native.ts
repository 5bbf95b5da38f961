import { type CallOptions, DisposedError, InvalidInputError } from '@selfplay/engine'
import type { DType, SerialisedModel } from '../graph/index.js'
import { settleAllocator } from './allocator.js'
import { type CApi, loadCApi, LOG_FATAL, type Pointer } from './c-api.js'
import { messageOf, RuntimeError } from './errors.js'
import { allocateHost, viewHost, wrapHost } from './host-tensor.js'
import { libraryPath, packageFolder } from './library.js'
import { FileMapper } from './mapped-file.js'
import { ModelBytes } from './model-bytes.js'
import { NativeSession } from './native-session.js'
import { NativeValues } from './native-values.js'
import { checkExtent, resolveOptions, type ResolvedOptions, resolveWeights, type WeightSource } from './options.js'
import type { HostArrays, PackedWeights, Runtime, Session, SessionOptions, Tensor } from './types.js'

/**
 * onnxruntime wants the file of an external weight to exist, although it takes the weight from us. This one in
 * onnxruntime-node's folder does; the offset lies beyond its end, so that an attempt to read the weight from it fails.
 */
const PLACEHOLDER = { name: 'package.json', offset: 2 ** 50 }

/** The C API of onnxruntime, on the CPU. */
export class NativeRuntime implements Runtime {
  readonly kind = 'native'
  readonly provider = 'cpu'
  readonly fallbackReason = undefined
  readonly inPlace = true
  readonly threads: number
  readonly #api: CApi
  readonly #values: NativeValues
  readonly #files: FileMapper
  readonly #sessions = new Set<NativeSession>()
  readonly #packed = new Set<NativePackedWeights>()
  #disposed = false

  private constructor(api: CApi, threads: number) {
    this.#api = api
    this.#values = new NativeValues(api)
    this.#files = new FileMapper(api)
    this.threads = threads
  }

  /** @throws RuntimeUnavailableError where koffi or the library cannot be loaded. */
  static async create(threads: number): Promise<NativeRuntime> {
    const api = await loadCApi(libraryPath())
    settleAllocator(api.koffi)
    return new NativeRuntime(api, threads)
  }

  get version(): string {
    return this.#api.version
  }

  allocate<D extends DType>(dtype: D, dims: readonly number[]): Tensor<D> {
    return allocateHost(dtype, dims, this.#reclaim)
  }

  tensor<D extends DType>(dtype: D, data: HostArrays[D], dims: readonly number[]): Tensor<D> {
    return wrapHost(dtype, data, dims)
  }

  view<D extends DType>(tensor: Tensor<D>, offset: number, dims: readonly number[]): Tensor<D> {
    return viewHost(tensor, offset, dims)
  }

  packedWeights(): PackedWeights {
    this.#checkAlive()
    const packed: NativePackedWeights = new NativePackedWeights(this.#api, () => this.#packed.delete(packed))
    this.#packed.add(packed)
    return packed
  }

  async createSession(
    model: SerialisedModel,
    options: SessionOptions = {},
    { signal }: CallOptions = {},
  ): Promise<Session> {
    this.#checkAlive()
    signal?.throwIfAborted()
    const resolved = resolveOptions(options, this.threads)
    const bytes = new ModelBytes(model.bytes)
    const weights = resolveWeights(model, bytes.weights, options.weights)
    const container = this.#container(resolved)
    const rewritten = bytes.rewrite(({ packable }) => ({
      placement: packable && resolved.packing !== 'none' ? 'constant' : 'default',
      location: PLACEHOLDER.name,
      offset: PLACEHOLDER.offset,
    }))
    const undo: (() => void)[] = []
    const release = () => undo.splice(0).forEach((action) => action())
    try {
      const values = weights.map((weight) => this.#weightValue(weight, undo))
      container?.use()
      if (container) undo.push(() => container.unuse())
      const handle = await this.#create(rewritten, resolved, values, container, signal)
      if (this.#disposed) this.#api.release('ReleaseSession', handle)
      this.#checkAlive()
      const session: NativeSession = new NativeSession({
        api: this.#api,
        values: this.#values,
        reclaim: this.#reclaim,
        handle,
        model,
        shrink: resolved.arena === 'shrink',
        concurrent: resolved.concurrent,
        onDispose: () => {
          this.#sessions.delete(session)
          release()
        },
      })
      this.#sessions.add(session)
      return session
    } catch (error) {
      release()
      throw error
    }
  }

  async dispose(): Promise<void> {
    this.#disposed = true
    await Promise.all([...this.#sessions].map((session) => session.dispose()))
    for (const packed of this.#packed) packed.dispose()
  }

  readonly #reclaim = (buffer: ArrayBuffer): void => this.#files.reclaim(buffer)

  #checkAlive(): void {
    if (this.#disposed) throw new DisposedError('the runtime was disposed: create another one')
  }

  #container({ packing }: ResolvedOptions): NativePackedWeights | undefined {
    if (typeof packing === 'string') return undefined
    if (packing instanceof NativePackedWeights && this.#packed.has(packing)) return packing
    throw new InvalidInputError(
      "createSession: packing must be 'none', 'own' or a container that this runtime's packedWeights() made and that is not disposed",
    )
  }

  /** The OrtValue over a weight's memory. What frees it goes to `undo`. */
  #weightValue({ spec, dims, length, source }: WeightSource, undo: (() => void)[]): { name: string; value: Pointer } {
    if ('tensor' in source) {
      source.tensor.pin()
      undo.push(() => source.tensor.unpin())
      return { name: spec.name, value: this.#values.of(source.tensor) }
    }
    const mapping = this.#files.map(source.file.path)
    undo.push(() => mapping.release())
    checkExtent(spec.name, source.file, mapping.length)
    const address = mapping.address + BigInt(source.file.offset)
    const value = this.#values.create(spec.dtype, dims, address, length)
    undo.push(() => this.#api.release('ReleaseValue', value))
    return { name: spec.name, value }
  }

  async #create(
    bytes: Uint8Array,
    options: ResolvedOptions,
    weights: readonly { readonly name: string; readonly value: Pointer }[],
    container: NativePackedWeights | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Pointer> {
    const api = this.#api
    const settings = this.#sessionOptions(options)
    const out = new BigUint64Array(new ArrayBuffer(8))
    const stop = () => api.call('SessionOptionsSetLoadCancellationFlag', settings, true)
    signal?.addEventListener('abort', stop, { once: true })
    try {
      for (const { name, value } of weights) api.call('AddInitializer', settings, name, value)
      const args = [api.env, bytes, bytes.byteLength, settings] as const
      if (container) {
        await api.callAsync('CreateSessionFromArrayWithPrepackedWeightsContainer', ...args, container.handle, out)
      } else {
        await api.callAsync('CreateSessionFromArray', ...args, out)
      }
      if (!signal?.aborted) return out[0]!
      api.release('ReleaseSession', out[0]!)
    } catch (error) {
      if (!signal?.aborted) throw explain(error)
    } finally {
      signal?.removeEventListener('abort', stop)
      api.release('ReleaseSessionOptions', settings)
    }
    throw signal.reason
  }

  #sessionOptions({ threads, optimisation, arena, memoryPattern, config }: ResolvedOptions): Pointer {
    const api = this.#api
    const settings = api.make('CreateSessionOptions')
    api.call('SetSessionLogSeverityLevel', settings, LOG_FATAL)
    api.call('SetIntraOpNumThreads', settings, threads)
    api.call('SetInterOpNumThreads', settings, 1)
    api.call('SetSessionGraphOptimizationLevel', settings, optimisation === 'all' ? 99 : 0)
    if (arena === false) api.call('DisableCpuMemArena', settings)
    if (arena === false || !memoryPattern) api.call('DisableMemPattern', settings)
    if (arena === 'shared') {
      api.shareArena()
      api.call('AddSessionConfigEntry', settings, 'session.use_env_allocators', '1')
    }
    const folder = ['session.model_external_initializers_file_folder_path', packageFolder()] as const
    for (const [key, value] of [...config, folder]) api.call('AddSessionConfigEntry', settings, key, value)
    return settings
  }
}

/** Packed weights of the C API: the container goes when it was disposed and the last session that uses it is gone. */
class NativePackedWeights implements PackedWeights {
  readonly handle: Pointer
  readonly #api: CApi
  readonly #onDispose: () => void
  #users = 1
  #disposed = false

  constructor(api: CApi, onDispose: () => void) {
    this.#api = api
    this.#onDispose = onDispose
    this.handle = api.make('CreatePrepackedWeightsContainer')
  }

  use(): void {
    this.#users++
  }

  unuse(): void {
    if (--this.#users === 0) this.#api.release('ReleasePrepackedWeightsContainer', this.handle)
  }

  dispose(): void {
    if (this.#disposed) return
    this.#disposed = true
    this.#onDispose()
    this.unuse()
  }
}

/** Says what to do where an optimiser wanted the contents of a weight. */
function explain(error: unknown): unknown {
  const message = messageOf(error)
  if (!(error instanceof RuntimeError) || !message.includes(String(PLACEHOLDER.offset))) return error
  return new RuntimeError(
    `an optimiser of onnxruntime wanted to copy a packed weight: create the session with packing 'none', or name the ` +
      `optimiser in disabledOptimisers. ${message}`,
    error.details,
    { cause: error },
  )
}
