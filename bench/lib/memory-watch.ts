import type { PeakMemory } from './case.js'
import { mappedAnonymous, residentMemory } from './machine.js'

/** How often the cheap counter is read, and how far apart readings of the exact sum are: at least ... */
const PERIOD_MS = 10
const EXACT_MS = 250
/** ... and so many times what the last one took: of a large process that is long, and slows it down. */
const EXACT_REST = 50

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
  let seen = false
  let nextExact = 0
  const readExact = () => {
    const started = performance.now()
    anonymous = Math.max(anonymous, mappedAnonymous(pid) ?? 0)
    const ended = performance.now()
    nextExact = ended + Math.max(EXACT_MS, EXACT_REST * (ended - started))
  }
  const read = () => {
    const now = residentMemory(pid)
    if (!now) return
    seen = true
    anonymous = Math.max(anonymous, now.anonymous)
    resident = Math.max(resident, now.peakResident)
    if (performance.now() >= nextExact) readExact()
  }
  const timer = setInterval(read, PERIOD_MS)
  return {
    stop() {
      read()
      clearInterval(timer)
      return seen ? { anonymous, resident } : undefined
    },
  }
}
