import { readFileSync } from 'node:fs'
import { availableParallelism, loadavg } from 'node:os'
import { describeMachine } from '@selfplay/ort'

/** Where and with what a case was measured. */
export interface MachineInfo {
  readonly cpu: string
  readonly cores: number
  /** Bytes. */
  readonly memory: number
  readonly platform: string
  /** Versions by name: node, onnxruntime, and those of the peers where they ran. */
  readonly versions: Readonly<Record<string, string>>
}

export async function machineInfo(): Promise<MachineInfo> {
  const { cpu, cores, memory, platform, node, runtime } = await describeMachine()
  const onnxruntime = 'error' in runtime ? `none (${runtime.error})` : `${runtime.version} (${runtime.kind})`
  return { cpu, cores, memory: memory.total, platform, versions: { node: node.slice(1), onnxruntime } }
}

/** Load of the last minute above which a machine of two cores is not called idle. */
const IDLE_LOAD = 0.5

export interface Load {
  /** Runnable processes, mean of the last minute. */
  readonly average: number
  readonly idle: boolean
}

/** How busy the machine is, asked before anything of ours runs. Systems that do not count say 0. */
export function currentLoad(): Load {
  const average = loadavg()[0] ?? 0
  return { average, idle: average <= (IDLE_LOAD * availableParallelism()) / 2 }
}

/** Resident memory of a process as the kernel counts it now, in bytes. */
export interface ResidentMemory {
  /** VmRSS: of all kinds together. */
  readonly resident: number
  /** RssAnon: heap, stacks, buffers; no mapped files. */
  readonly anonymous: number
  /** VmHWM: the largest of all kinds together so far. */
  readonly peakResident: number
}

/**
 * @param pid `self`, or the id of a process of one's own.
 * @returns undefined when the process is gone.
 */
export function residentMemory(pid: number | 'self'): ResidentMemory | undefined {
  let text: string
  try {
    text = readFileSync(`/proc/${pid}/status`, 'utf8')
  } catch {
    return undefined
  }
  const bytes = (field: string) =>
    1024 * Number(new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(text)?.[1] ?? Number.NaN)
  const memory = { resident: bytes('VmRSS'), anonymous: bytes('RssAnon'), peakResident: bytes('VmHWM') }
  return Number.isFinite(memory.anonymous) ? memory : undefined
}

/**
 * Anonymous memory of a process by adding up its mappings (smaps_rollup): exact, and slow enough not to be asked often.
 * @returns undefined when the process is gone.
 */
export function mappedAnonymous(pid: number | 'self'): number | undefined {
  try {
    const kilobytes = /^Anonymous:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))?.[1]
    return kilobytes === undefined ? undefined : 1024 * Number(kilobytes)
  } catch {
    return undefined
  }
}
