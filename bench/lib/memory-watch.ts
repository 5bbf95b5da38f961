import type { PeakMemory } from './case.js'
import { mappedAnonymous, residentMemory } from './machine.js'

/** How often the cheap counter is read, and every how many readings the exact sum. */
const PERIOD_MS = 10
const EXACT_EVERY = 25

/** Whether this system tells what {@link watchMemory} asks. */
export const canWatchMemory = (): boolean => residentMemory('self') !== undefined

export interface MemoryWatch {
  /** Ends the watch; undefined when the process was never seen. */
  stop(): PeakMemory | undefined
}

/** Follows the memory of another process from outside, so that what it computes does not delay the readings. */
export function watchMemory(pid: number): MemoryWatch {
  let anonymous = 0
  let resident = 0
  let readings = 0
  const read = () => {
    const now = residentMemory(pid)
    if (!now) return
    const exact = readings++ % EXACT_EVERY === 0 ? (mappedAnonymous(pid) ?? 0) : 0
    anonymous = Math.max(anonymous, now.anonymous, exact)
    resident = Math.max(resident, now.peakResident)
  }
  const timer = setInterval(read, PERIOD_MS)
  return {
    stop() {
      read()
      clearInterval(timer)
      return readings === 0 ? undefined : { anonymous, resident }
    },
  }
}
