import type { ModelConfig } from '../models/config.js'
import { parameterCount } from '../models/weights.js'
import type { SessionOptions } from '../runtime/types.js'

/** Below this many parameters, a second thread gains a pass less than a second pass beside it does. */
const SMALL_MODEL = 2_000_000

/** Whether a model is so small that its passes are best run side by side, on a thread each. */
export const isSmallModel = (config: ModelConfig): boolean => parameterCount(config) < SMALL_MODEL

/**
 * How the passes of several agents run: those of small models side by side (measured: two passes of 0.36 M parameters 21 ms one
 * after the other on two threads, 15 ms at once on one thread each), others one after another on all threads. Depends on nothing
 * but the model and the number of agents, so that a run and its continuation compute alike.
 */
export function sideBySide(config: ModelConfig, agents: number): Pick<SessionOptions, 'concurrent' | 'threads'> {
  if (!isSmallModel(config)) return {}
  return agents > 1 ? { concurrent: true, threads: 1 } : { concurrent: true }
}
