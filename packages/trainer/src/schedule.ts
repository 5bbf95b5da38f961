import { ConfigError } from './errors.js'

/** How the learning rate goes over a run. */
export interface Schedule {
  readonly kind: 'constant' | 'linear' | 'cosine'
  /** Updates over which the rate rises from (almost) 0. */
  readonly warmupSteps: number
  /** What is left of the rate at the end of linear and cosine, as a fraction. */
  readonly finalFraction: number
}

/**
 * Factor on the learning rate for the update after `step` finished ones.
 *
 * Warm-up: (step + 1) / warmupSteps. Then constant: 1; linear: from 1 to `finalFraction`; cosine: the same on half a cosine
 * (Loshchilov & Hutter 2017, equation 5, one period). The last update of a run has the value at `totalSteps - 1`.
 *
 * @param totalSteps updates of the whole run; null (unknown) is allowed for constant only.
 * @throws ConfigError for another kind without `totalSteps`.
 */
export function scheduleFactor(schedule: Schedule, step: number, totalSteps: number | null): number {
  const { kind, warmupSteps, finalFraction } = schedule
  if (step < warmupSteps) return (step + 1) / warmupSteps
  if (kind === 'constant') return 1
  if (totalSteps === null) {
    throw new ConfigError(
      `a ${kind} schedule needs the number of updates, got null: pass totalSteps, or use the kind "constant"`,
      { kind },
    )
  }
  const progress = Math.min((step - warmupSteps) / Math.max(totalSteps - warmupSteps, 1), 1)
  const left = kind === 'linear' ? 1 - progress : (1 + Math.cos(Math.PI * progress)) / 2
  return finalFraction + (1 - finalFraction) * left
}
