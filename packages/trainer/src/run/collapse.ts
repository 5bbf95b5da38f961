import { z } from 'zod'

/** The setting `collapse` of a trainer: null is off, `stop` ends the run at a collapse. */
export const collapseSetting = z
  .strictObject({
    window: z.number().int().positive().default(20),
    drop: z.number().positive().max(1).default(0.5),
    stop: z.boolean().default(false),
  })
  .nullable()
  .default({ window: 20, drop: 0.5, stop: false })

export interface CollapseOptions {
  /** Updates whose mean counts as one value. */
  readonly window: number
  /** Share of the gain at the peak that may be lost. */
  readonly drop: number
}

/** Plain data, part of a checkpoint. */
export interface CollapseState {
  /** The last values, at most `window`. */
  readonly recent: readonly number[]
  /** Mean of the first full window; null until there is one. */
  readonly start: number | null
  /** Highest mean of a window and the update that ended it. */
  readonly peak: { readonly value: number; readonly step: number } | null
  /** Below the line now; a collapse is told once until the mean has recovered. */
  readonly collapsed: boolean
}

export const noCollapse: CollapseState = { recent: [], start: null, peak: null, collapsed: false }

export interface CollapseStep {
  readonly state: CollapseState
  /** The mean of the window; null until it is full. */
  readonly mean: number | null
  /** This update set a new peak. */
  readonly newPeak: boolean
  /** Set at the update where the mean fell below the line. */
  readonly collapse: { readonly mean: number; readonly peak: number; readonly peakStep: number } | null
}

/**
 * Follows a value whose rise is the goal. Collapse: the mean over a window has fallen from its peak by more than `drop` of
 * what the peak had gained over the first window. Without a gain there is nothing to lose.
 */
export function watchForCollapse(
  { recent, start, peak, collapsed }: CollapseState,
  value: number,
  step: number,
  { window, drop }: CollapseOptions,
): CollapseStep {
  const last = [...recent, value].slice(-window)
  if (last.length < window) {
    return { state: { recent: last, start, peak, collapsed }, mean: null, newPeak: false, collapse: null }
  }
  const mean = last.reduce((sum, x) => sum + x, 0) / window
  const first = start ?? mean
  const newPeak = peak === null || mean > peak.value
  const top = newPeak ? { value: mean, step } : peak
  const gain = top.value - first
  const below = gain > 1e-9 * Math.max(1, Math.abs(top.value)) && top.value - mean > drop * gain
  return {
    state: { recent: last, start: first, peak: top, collapsed: below },
    mean,
    newPeak,
    collapse: below && !collapsed ? { mean, peak: top.value, peakStep: top.step } : null,
  }
}
