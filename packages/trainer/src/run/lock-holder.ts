import { randomUUID } from 'node:crypto'
import { readFile, readlink, realpath } from 'node:fs/promises'
import { hostname } from 'node:os'
import { z } from 'zod'

/** What a lock says about the process that has it. */
export const holderSchema = z.object({
  /** Of the lock, not of the process. */
  id: z.string(),
  /** The run folder, without symbolic links: a lock that lies elsewhere came there with a copy of it. */
  directory: z.string(),
  pid: z.number().int().positive(),
  host: z.string(),
  /** Where process ids count: containers of one host name have their own. Null where that is unknown. */
  namespace: z.string().nullable(),
  /** Tells the process from a later one of the same id. Null where that is unknown. */
  process: z.string().nullable(),
  /** When the lock was taken, ISO 8601. */
  since: z.string(),
})
export type Holder = z.output<typeof holderSchema>

/** This process as the holder of a new lock of a folder. */
export async function newHolder(folder: string): Promise<Holder> {
  const { pid } = process
  const directory = await realpath(folder)
  const namespace = await readlink('/proc/self/ns/pid').catch(() => null)
  const since = new Date().toISOString()
  return { id: randomUUID(), directory, pid, host: hostname(), namespace, process: await processOf(pid), since }
}

/** Boot and start time of a process, where Linux tells them; null when there is no such process. */
async function processOf(pid: number): Promise<string | null> {
  try {
    const boot = await readFile('/proc/sys/kernel/random/boot_id', 'utf8')
    const text = await readFile(`/proc/${pid}/stat`, 'utf8')
    const [state, ...fields] = text.slice(text.lastIndexOf(')') + 2).split(' ')
    return state === 'Z' ? null : `${boot.trim()}/${fields[18]}`
  } catch {
    return null
  }
}

/** Whether a holder is on another machine, or in another container: nothing can be said about it from here. */
export const isElsewhere = (holder: Holder, own: Holder): boolean =>
  holder.host !== own.host || holder.namespace !== own.namespace

/** Whether a process of this machine does certainly not run any more. */
export async function isGone(holder: Holder): Promise<boolean> {
  if (holder.process !== null) return (await processOf(holder.pid)) !== holder.process
  try {
    process.kill(holder.pid, 0)
    return false
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ESRCH'
  }
}
