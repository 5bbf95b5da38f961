import { arch, availableParallelism, cpus, freemem, platform, release, totalmem } from 'node:os'
import { createRuntime, type RuntimeOptions } from './create.js'
import { messageOf } from './errors.js'
import { shippedProviders } from './providers.js'
import type { Runtime } from './types.js'

/** What a machine offers for training. */
export interface MachineReport {
  /** Version of node, e.g. `v20.20.2`. */
  readonly node: string
  /** e.g. `linux-x64`. */
  readonly platform: string
  /** Version of the system's kernel. */
  readonly system: string
  /** Model name of the processor. */
  readonly cpu: string
  /** Cores that this process may use. */
  readonly cores: number
  /** Bytes. */
  readonly memory: { readonly total: number; readonly free: number }
  /** The runtime that `createRuntime` gives, or why it gives none. */
  readonly runtime:
    | {
        readonly kind: Runtime['kind']
        readonly version: string
        readonly threads: number
        readonly fallbackReason: string | undefined
      }
    | { readonly error: string }
  /** Execution providers that are built into the shipped library, by onnxruntime's own names. */
  readonly providers: readonly string[]
}

/** Looks at this machine. Never throws: what cannot be had is said in `runtime`. */
export async function describeMachine(options: RuntimeOptions = {}): Promise<MachineReport> {
  return {
    node: process.version,
    platform: `${platform()}-${arch()}`,
    system: release(),
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    cores: availableParallelism(),
    memory: { total: totalmem(), free: freemem() },
    ...(await describeRuntime(options)),
  }
}

async function describeRuntime(options: RuntimeOptions): Promise<Pick<MachineReport, 'runtime' | 'providers'>> {
  try {
    const runtime = await createRuntime(options)
    const { kind, version, threads, fallbackReason } = runtime
    await runtime.dispose()
    return { runtime: { kind, version, threads, fallbackReason }, providers: await shippedProviders(kind) }
  } catch (error) {
    return { runtime: { error: messageOf(error) }, providers: [] }
  }
}
