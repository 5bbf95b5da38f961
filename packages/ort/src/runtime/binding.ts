import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import { type CallOptions, DisposedError, InvalidInputError } from '@selfplay/engine'
import type { DType, SerialisedModel, TensorSpec, WeightFile } from '../graph/index.js'
import { messageOf, RuntimeError } from './errors.js'
import { type BindingHandle, type BindingLibrary, loadBinding } from './binding-library.js'
import { BindingSession } from './binding-session.js'
import { LOG_FATAL } from './c-api.js'
import { allocateHost, type HostTensor, viewHost, wrapHost } from './host-tensor.js'
import { identifyFile } from './mapped-file.js'
import { ModelBytes } from './model-bytes.js'
import { checkExtent, resolveOptions, type ResolvedOptions, resolveWeights, type WeightSource } from './options.js'
import type { HostArrays, PackedWeights, Runtime, Session, SessionOptions, Tensor } from './types.js'

/**
 * onnxruntime-node's own binding, on the CPU. Creation and runs block the calling thread. Weights that are packed (and
 * bfloat16 ones) are copied by every session; the others are fed at each run and so read in place. Weight files are
 * read into memory, once per runtime and as long as a session uses them.
 */
export class BindingRuntime implements Runtime {
  readonly kind = 'binding'
  readonly provider = 'cpu'
  readonly inPlace = true
  readonly threads: number
  readonly fallbackReason: string | undefined
  readonly #library: BindingLibrary
  readonly #sessions = new Set<BindingSession>()
  readonly #files = new Map<string, { readonly tensor: HostTensor; users: number }>()
  #disposed = false

  private constructor(library: BindingLibrary, threads: number, fallbackReason: string | undefined) {
    this.#library = library
    this.threads = threads
    this.fallbackReason = fallbackReason
  }

  /** @throws RuntimeUnavailableError where onnxruntime-node cannot be loaded. */
  static create(threads: number, fallbackReason?: string): BindingRuntime {
    return new BindingRuntime(loadBinding(), threads, fallbackReason)
  }

  get version(): string {
    return this.#library.version
  }

  allocate<D extends DType>(dtype: D, dims: readonly number[]): Tensor<D> {
    return allocateHost(dtype, dims)
  }

  tensor<D extends DType>(dtype: D, data: HostArrays[D], dims: readonly number[]): Tensor<D> {
    return wrapHost(dtype, data, dims)
  }

  view<D extends DType>(tensor: Tensor<D>, offset: number, dims: readonly number[]): Tensor<D> {
    return viewHost(tensor, offset, dims)
  }

  packedWeights(): PackedWeights {
    this.#checkAlive()
    return new UnsharedWeights()
  }

  async createSession(
    model: SerialisedModel,
    options: SessionOptions = {},
    { signal }: CallOptions = {},
  ): Promise<Session> {
    this.#checkAlive()
    signal?.throwIfAborted()
    const resolved = resolveOptions(options, this.threads)
    const { packing } = resolved
    if (typeof packing === 'object' && (!(packing instanceof UnsharedWeights) || packing.disposed)) {
      throw new InvalidInputError(
        "createSession: packing must be 'none', 'own' or a container that this runtime's packedWeights() made and that is not disposed",
      )
    }
    const bytes = new ModelBytes(model.bytes)
    const weights = resolveWeights(model, bytes.weights, options.weights)
    const copied = weights.filter((weight) => isCopied(weight, resolved))
    const copiedNames = new Set(copied.map(({ spec }) => spec.name))
    const rewritten = bytes.rewrite(({ name }) => ({
      placement: copiedNames.has(name) ? 'constant' : 'input',
      location: locationOf(name),
    }))
    const undo: (() => void)[] = []
    const release = () => undo.splice(0).forEach((action) => action())
    try {
      const sources = new Map(weights.map((weight) => [weight.spec.name, this.#hold(weight, undo)]))
      const fed = [...sources].filter(([name]) => !copiedNames.has(name))
      const externalData = copied.map(({ spec }) => ({
        path: locationOf(spec.name),
        data: bytesOf(sources.get(spec.name)!),
      }))
      const handle = this.#load(rewritten, { ...sessionOptions(resolved), externalData })
      const onDispose = () => {
        this.#sessions.delete(session)
        release()
      }
      const session: BindingSession = new BindingSession({
        library: this.#library,
        handle,
        model,
        weights: fed,
        shrink: resolved.arena === 'shrink',
        onDispose,
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
  }

  #checkAlive(): void {
    if (this.#disposed) throw new DisposedError('the runtime was disposed: create another one')
  }

  #load(bytes: Uint8Array, options: object): BindingHandle {
    const session = new this.#library.InferenceSession()
    try {
      session.loadModel(bytes.buffer, bytes.byteOffset, bytes.byteLength, options)
    } catch (cause) {
      throw new RuntimeError(`onnxruntime: ${messageOf(cause)}`, {}, { cause })
    }
    return session
  }

  /** The memory of a weight, kept until `undo` is done. */
  #hold({ spec, dims, source }: WeightSource, undo: (() => void)[]): HostTensor {
    if ('tensor' in source) {
      source.tensor.pin()
      undo.push(() => source.tensor.unpin())
      return source.tensor
    }
    const key = `${spec.dtype}:${dims.join()}:${source.file.offset}:${identifyFile(source.file.path).key}`
    const entry = this.#files.get(key) ?? { tensor: readWeight(spec, dims, source.file), users: 0 }
    this.#files.set(key, entry)
    entry.users++
    undo.push(() => {
      if (--entry.users === 0) this.#files.delete(key)
    })
    return entry.tensor
  }
}

/** What this runtime gives for a container: its sessions pack for themselves. */
class UnsharedWeights implements PackedWeights {
  disposed = false

  dispose(): void {
    this.disposed = true
  }
}

function isCopied({ packable, spec }: WeightSource, { packing }: ResolvedOptions): boolean {
  return spec.dtype === 'bfloat16' || (packable && packing !== 'none')
}

/** The name of a file that is not there: onnxruntime is given its contents. */
function locationOf(weight: string): string {
  return `${Buffer.from(weight).toString('hex')}.weight`
}

function bytesOf({ array }: HostTensor): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength)
}

function sessionOptions({ threads, optimisation, arena, memoryPattern, config }: ResolvedOptions): object {
  // Dots in the keys of `extra` are onnxruntime-node's own way of spelling nested objects.
  return {
    executionProviders: ['cpu'],
    intraOpNumThreads: threads,
    interOpNumThreads: 1,
    graphOptimizationLevel: optimisation === 'all' ? 'all' : 'disabled',
    enableCpuMemArena: arena !== false,
    enableMemPattern: arena !== false && memoryPattern,
    logSeverityLevel: LOG_FATAL,
    extra: Object.fromEntries(config),
  }
}

function readWeight({ name, dtype }: TensorSpec, dims: readonly number[], file: WeightFile): HostTensor {
  const tensor = allocateHost(dtype, dims)
  const bytes = bytesOf(tensor)
  const descriptor = openSync(file.path, 'r')
  try {
    checkExtent(name, file, fstatSync(descriptor).size)
    for (let at = 0; at < bytes.length;) {
      // Node reads at most 2 GiB at once.
      const read = readSync(descriptor, bytes, at, Math.min(bytes.length - at, 2 ** 30), file.offset + at)
      if (read === 0) checkExtent(name, file, file.offset + at)
      at += read
    }
  } finally {
    closeSync(descriptor)
  }
  return tensor
}
