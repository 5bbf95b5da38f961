import type { CallOptions } from '@selfplay/engine'
import type { DType, Provider, SerialisedModel } from '../graph/index.js'

/** The typed array that holds each dtype on the host. float16 and bfloat16 are raw bits. */
export interface HostArrays {
  float32: Float32Array
  float64: Float64Array
  float16: Uint16Array
  bfloat16: Uint16Array
  int32: Int32Array
  int64: BigInt64Array
  bool: Uint8Array
  uint8: Uint8Array
}
export type HostArray = HostArrays[DType]

/** A dense tensor that sessions of one runtime read and write. */
export interface Tensor<D extends DType = DType> {
  readonly dtype: D
  readonly dims: readonly number[]
  /** Number of elements. */
  readonly size: number
  /**
   * The memory itself where it lives on the host (CPU); undefined where it lives on a device. Leave it alone while a
   * run that uses the tensor is in flight.
   * @throws DisposedError after `dispose`.
   */
  readonly data: HostArrays[D] | undefined
  /** A copy on the host. */
  read(): Promise<HostArrays[D]>
  /** Overwrites the contents; `source.length` must be `size`. */
  write(source: HostArrays[D]): Promise<void>
  /**
   * Frees it now, or as soon as no run, bound run, session (as a weight) or view uses it any more. Views keep their
   * parent alive; disposing a view frees nothing. The arrays that `data` gave out must not be used afterwards.
   */
  dispose(): void
}

export interface SessionOptions {
  /** Threads of the intra-op pool. Default: the runtime's. */
  readonly threads?: number
  /**
   * What happens to constant weights.
   * `none`: read in place; a change of the memory behind them is seen. `own`: packed for this session.
   * A container: packed once and shared by all sessions made with it. Default `none`.
   * Only weights that feed a matrix product or a convolution are packed; the others are always read in place.
   * The `binding` runtime treats a container like `own`.
   */
  readonly packing?: 'none' | 'own' | PackedWeights
  /** Memory for external weights, by name: shared, never copied (unless packed). Goes before a weight's own file. */
  readonly weights?: Readonly<Record<string, Tensor>>
  /** Default `all`. `none` runs the graph node by node as built. */
  readonly optimisation?: 'all' | 'none'
  /**
   * onnxruntime's graph optimisers that shall not run, by its own names, e.g. `CommonSubexpressionElimination` where
   * activations are recomputed on purpose. Names that onnxruntime does not know have no effect. Default none.
   */
  readonly disabledOptimisers?: readonly string[]
  /**
   * Reuse run memory between runs (arena). `shrink` reuses it within a run and returns it after each. `shared` takes it from one arena
   * for all sessions of the process, which keeps it when they are disposed: for small graphs that come and go. The `binding` runtime
   * takes `shared` as true. Default true.
   */
  readonly arena?: boolean | 'shrink' | 'shared'
  /**
   * Take the memory of a run in one piece where one of the same sizes went before: good where sizes stay; where they change, the piece
   * comes on top of what was there. Only with an arena. Default true.
   */
  readonly memoryPattern?: boolean
  /** Let waiting pool threads spin for a while before they sleep. Default false: the other cores belong to others too. */
  readonly spin?: boolean
  /**
   * Whether runs may overlap, each with run memory of its own; those of one bound run never do. Default false: one after
   * another. The `binding` runtime makes no difference.
   */
  readonly concurrent?: boolean
}

/** Packed copies of constant weights, shared by the sessions that were created with it. */
export interface PackedWeights {
  /** Frees the copies, once the last session that uses them is disposed. */
  dispose(): void
}

/** Feeds and fetches fixed once, run many times: the memory of the tensors is read and written at each run. */
export interface BoundRun {
  run(options?: CallOptions): Promise<void>
  /**
   * The same on the calling thread, which is blocked for as long: for graphs that take less time than a change of threads.
   * @throws RuntimeError also where a run that it would have to wait for is in flight.
   */
  runSync(): void
  dispose(): void
}

/** A compiled graph. Runs of one session are serialised, unless it was made `concurrent`. */
export interface Session {
  /**
   * Runs the graph. `outputs` names what to return: a tensor is written in place, null is allocated by the runtime.
   * Outputs that are not named are not returned. Shape inputs of the graph are filled in by the runtime.
   * A tensor may be input and output at once only where `runtime.inPlace` is true and the graph is elementwise in it, or writes it by
   * GroupQueryAttention, which may be several outputs one after another, each read by the next.
   *
   * An aborted run rejects with the signal's reason, whether or not it got to its end: what its output tensors then
   * hold is undefined. It stops between two nodes of the graph.
   * @throws InvalidInputError naming the tensor, what was expected and what came; RuntimeError with onnxruntime's own
   *   message; DisposedError.
   */
  run(
    inputs: Readonly<Record<string, Tensor>>,
    outputs: Readonly<Record<string, Tensor | null>>,
    options?: CallOptions,
  ): Promise<Record<string, Tensor>>
  /** Like `run` with all output tensors given, for loops in which only the contents change. */
  bind(inputs: Readonly<Record<string, Tensor>>, outputs: Readonly<Record<string, Tensor>>): BoundRun
  /** Waits for the runs that were started, then frees the session and what was bound to it. */
  dispose(): Promise<void>
}

/** One way of reaching onnxruntime, on one execution provider. */
export interface Runtime {
  /** `native`: the C API through koffi. `binding`: onnxruntime-node's own, whose runs block the calling thread. */
  readonly kind: 'native' | 'binding'
  readonly provider: Provider
  /** Why this is the `binding` although `native` is the default; undefined otherwise. */
  readonly fallbackReason: string | undefined
  /** Version of onnxruntime, e.g. `1.30.0`. */
  readonly version: string
  /** Whether an elementwise graph may write onto the tensor that it reads. */
  readonly inPlace: boolean
  readonly threads: number
  /** Zeroed memory, off the JavaScript heap. */
  allocate<D extends DType>(dtype: D, dims: readonly number[]): Tensor<D>
  /** A tensor over (or, where that cannot be, of a copy of) the array. On the CPU it is always over the array. */
  tensor<D extends DType>(dtype: D, data: HostArrays[D], dims: readonly number[]): Tensor<D>
  /** A tensor over part of another's memory, from element `offset` on. */
  view<D extends DType>(tensor: Tensor<D>, offset: number, dims: readonly number[]): Tensor<D>
  /**
   * Compiles a graph. Aborting ends it between two weights.
   * @throws InvalidInputError for options and weights that do not fit; RuntimeError with onnxruntime's own message.
   */
  createSession(model: SerialisedModel, options?: SessionOptions, call?: CallOptions): Promise<Session>
  packedWeights(): PackedWeights
  /** Disposes all its sessions and containers. Tensors are left to the garbage collector. */
  dispose(): Promise<void>
}
