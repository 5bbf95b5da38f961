import type koffiModule from 'koffi'
import { messageOf, ortCodeName, RuntimeError, RuntimeUnavailableError } from './errors.js'
import { disableTelemetry, disableTelemetryInThread } from './telemetry.js'

/** A C pointer; null and 0n are the null pointer. */
export type Pointer = bigint
type Argument = Pointer | number | boolean | string | null | NodeJS.ArrayBufferView | ArrayBufferLike

/** A C function. `async` runs it on another thread; the arguments' memory must stay until it calls back. */
export interface NativeFunction {
  (...args: Argument[]): Pointer | number | string | null | undefined
  readonly async: (...args: [...Argument[], (error: Error | null, result: Pointer | null) => void]) => void
}

const P = 'void *'
const FUNCTIONS = {
  GetErrorCode: [1, 'int', [P]],
  GetErrorMessage: [2, 'str', [P]],
  CreateEnv: [3, P, ['int', 'str', P]],
  DisableTelemetryEvents: [6, P, [P]],
  CreateSessionFromArray: [8, P, [P, P, 'size_t', P, P]],
  Run: [9, P, [P, P, P, P, 'size_t', P, 'size_t', P]],
  CreateSessionOptions: [10, P, [P]],
  DisableMemPattern: [17, P, [P]],
  DisableCpuMemArena: [19, P, [P]],
  SetSessionLogSeverityLevel: [22, P, [P, 'int']],
  SetSessionGraphOptimizationLevel: [23, P, [P, 'int']],
  SetIntraOpNumThreads: [24, P, [P, 'int']],
  SetInterOpNumThreads: [25, P, [P, 'int']],
  CreateRunOptions: [39, P, [P]],
  RunOptionsSetRunLogSeverityLevel: [41, P, [P, 'int']],
  RunOptionsSetTerminate: [46, P, [P]],
  RunOptionsUnsetTerminate: [47, P, [P]],
  CreateTensorWithDataAsOrtValue: [49, P, [P, P, 'size_t', P, 'size_t', 'int', P]],
  GetTensorMutableData: [51, P, [P, P]],
  GetDimensionsCount: [61, P, [P, P]],
  GetDimensions: [62, P, [P, P, 'size_t']],
  GetTensorTypeAndShape: [65, P, [P, P]],
  CreateCpuMemoryInfo: [69, P, ['int', 'int', P]],
  ReleaseStatus: [93, 'void', [P]],
  ReleaseSession: [95, 'void', [P]],
  ReleaseValue: [96, 'void', [P]],
  ReleaseRunOptions: [97, 'void', [P]],
  ReleaseTensorTypeAndShapeInfo: [99, 'void', [P]],
  ReleaseSessionOptions: [100, 'void', [P]],
  GetAvailableProviders: [125, P, [P, P]],
  ReleaseAvailableProviders: [126, P, [P, 'int']],
  AddSessionConfigEntry: [130, P, [P, 'str', 'str']],
  RunWithBinding: [133, P, [P, P, P]],
  CreateIoBinding: [134, P, [P, P]],
  ReleaseIoBinding: [135, 'void', [P]],
  BindInput: [136, P, [P, 'str', P]],
  BindOutput: [137, P, [P, 'str', P]],
  CreateAndRegisterAllocator: [144, P, [P, P, P]],
  AddInitializer: [150, P, [P, 'str', P]],
  AddRunConfigEntry: [165, P, [P, 'str', 'str']],
  CreatePrepackedWeightsContainer: [166, P, [P]],
  ReleasePrepackedWeightsContainer: [167, 'void', [P]],
  CreateSessionFromArrayWithPrepackedWeightsContainer: [169, P, [P, P, 'size_t', P, P, P]],
  SessionOptionsSetLoadCancellationFlag: [293, P, [P, 'bool']],
} as const satisfies Readonly<Record<string, readonly [slot: number, result: string, args: readonly string[]]>>

type FunctionName = keyof typeof FUNCTIONS

/** Place of each function that we call in onnxruntime's table, which only ever grows at its end. */
export const SLOTS = Object.fromEntries(Object.entries(FUNCTIONS).map(([name, [slot]]) => [name, slot])) as {
  readonly [Name in FunctionName]: number
}

/** The version of the table that we ask for: the oldest one that has all our functions is older still. */
const API_VERSION = 20
/** onnxruntime's log level at which only what ends the process is printed: everything else reaches us as a status. */
export const LOG_FATAL = 4

/** Kinds of allocators, as onnxruntime counts them. */
const [DEVICE_ALLOCATOR, ARENA_ALLOCATOR] = [0, 1]

type Koffi = typeof koffiModule

/** onnxruntime's C API, loaded. One per thread of JavaScript, for the life of the process. */
export class CApi {
  readonly version: string
  readonly functions: { readonly [Name in FunctionName]: NativeFunction }
  readonly koffi: Koffi
  /** The OrtEnv. Never released: it belongs to the process, and sessions may outlive any of its users. */
  readonly env: Pointer
  /** Describes CPU memory. */
  readonly cpuMemory: Pointer
  /** Keeps the library loaded: the collector of its handle would unload the code under our feet. */
  readonly library: unknown
  readonly #types: unknown[] = []
  #hasArena = false
  /** Arguments of calls on other threads: their memory must stay. */
  readonly #inFlight = new Set<readonly Argument[]>()

  constructor(koffi: Koffi, path: string) {
    this.koffi = koffi
    const library = koffi.load(path)
    this.library = library
    const base: Pointer = library.func('OrtGetApiBase', P, [])()
    const [getApi, getVersion] = koffi.decode(base, koffi.array(P, 2)) as [Pointer, Pointer]
    this.version = koffi.call(getVersion, koffi.proto('str', []))
    const api: Pointer | null = koffi.call(getApi, koffi.proto(P, ['uint32_t']), API_VERSION)
    if (!api) {
      throw new RuntimeUnavailableError(`onnxruntime ${this.version} at ${path} has no C API of version ${API_VERSION}`)
    }
    const length = Math.max(...Object.values(SLOTS)) + 1
    const table = koffi.decode(api, koffi.array(P, length)) as Pointer[]
    this.functions = Object.fromEntries(
      Object.entries(FUNCTIONS).map(([name, [slot, result, args]]) => {
        const type = koffi.proto(result, [...args])
        this.#types.push(type)
        return [name, koffi.decode(table[slot], type) as NativeFunction]
      }),
    ) as { readonly [Name in FunctionName]: NativeFunction }
    this.env = this.make('CreateEnv', LOG_FATAL, 'selfplay')
    this.call('DisableTelemetryEvents', this.env)
    this.cpuMemory = this.make('CreateCpuMemoryInfo', DEVICE_ALLOCATOR, 0)
  }

  /** Has an arena that sessions share, from the first call on. Like the OrtEnv, it stays. */
  shareArena(): void {
    if (this.#hasArena) return
    const memory = this.make('CreateCpuMemoryInfo', ARENA_ALLOCATOR, 0)
    this.call('CreateAndRegisterAllocator', this.env, memory, null)
    this.#hasArena = true
  }

  /** Calls a function that returns a status. @throws RuntimeError */
  call(name: FunctionName, ...args: Argument[]): void {
    this.check(this.functions[name](...args) as Pointer | null)
  }

  /** Calls a function whose last parameter receives a pointer. @throws RuntimeError */
  make(name: FunctionName, ...args: Argument[]): Pointer {
    const out = pointers(1)
    this.call(name, ...args, out)
    return out[0]!
  }

  /** Calls a function that returns a status on another thread. */
  callAsync(name: FunctionName, ...args: Argument[]): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#inFlight.add(args)
      this.functions[name].async(...args, (error, status) => {
        const failure = error ?? this.failure(status)
        this.#inFlight.delete(args)
        if (failure) reject(failure)
        else resolve()
      })
    })
  }

  /** Frees an object. */
  release(name: FunctionName, object: Pointer): void {
    this.functions[name](object)
  }

  check(status: Pointer | null): void {
    const failure = this.failure(status)
    if (failure) throw failure
  }

  /** The error in a status, which is released. */
  failure(status: Pointer | null): RuntimeError | undefined {
    if (!status) return undefined
    const code = ortCodeName(this.functions.GetErrorCode(status) as number)
    const message = this.functions.GetErrorMessage(status) as string
    this.functions.ReleaseStatus(status)
    return new RuntimeError(`onnxruntime: ${message} (${code})`, { ort: code })
  }
}

/** An array of pointers that does not move. */
export function pointers(length: number): BigUint64Array<ArrayBuffer> {
  return new BigUint64Array(new ArrayBuffer(Math.max(length, 1) * 8))
}

/** A list of int64 that does not move. */
export function int64s(values: readonly number[]): BigInt64Array<ArrayBuffer> {
  const array = new BigInt64Array(new ArrayBuffer(Math.max(values.length, 1) * 8))
  values.forEach((value, i) => (array[i] = BigInt(value)))
  return array
}

const loaded = new Map<string, CApi>()

/** Loads the library at `path`, once. @throws RuntimeUnavailableError saying why it cannot. */
export async function loadCApi(path: string): Promise<CApi> {
  const known = loaded.get(path)
  if (known) return known
  disableTelemetry()
  try {
    const { default: koffi } = await import('koffi')
    disableTelemetryInThread(koffi)
    const api = loaded.get(path) ?? new CApi(koffi, path)
    loaded.set(path, api)
    return api
  } catch (cause) {
    if (cause instanceof RuntimeUnavailableError) throw cause
    throw new RuntimeUnavailableError(`cannot call ${path} through koffi: ${messageOf(cause)}`, { path }, { cause })
  }
}
