import { ConfigError } from '../errors.js'
import { parseStrict } from '../strict-config.js'
import { runSchema } from './live-parts.js'
import type { Tracker } from '../track/tracker.js'

const TRACKER_CALLS = ['start', 'log', 'finish'] as const

/**
 * Refuses what a run could only stumble over later: unknown options of its folder, and trackers that are none.
 *
 * @throws ConfigError naming the option, what was expected and what came.
 */
export function checkOutside(run: unknown, trackers: unknown): void {
  if (run !== null && run !== undefined) parseStrict(runSchema, run, 'run')
  if (!Array.isArray(trackers)) throw new ConfigError(`trackers: expected a list, got ${typeof trackers}`)
  trackers.forEach((tracker: Partial<Tracker> | null | undefined, index) => {
    const missing = TRACKER_CALLS.find((call) => typeof tracker?.[call] !== 'function')
    if (missing) throw new ConfigError(`trackers[${index}]: expected an object with a function "${missing}"`, { index })
  })
}
