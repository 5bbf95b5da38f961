import { z } from 'zod'
import { CollapseError } from '../errors.js'

/** The setting `collapse` of a trainer: null is off, `stop` ends the run at a collapse. */
export const collapseSetting = z
  .strictObject({
    window: z.number().int().positive().default(20),
    drop: z.number().positive().max(1).default(0.5),
    stop: z.boolean().default(false),
  })
  .nullable()
  .default({ window: 20, drop: 0.5, stop: false })

/** What of a loop's state is about collapse. */
interface Watched {
  /** Finished updates. */
  readonly step: number
  readonly collapse?: CollapseState
  /** The checkpoint with the highest mean, and that mean. */
  readonly best?: { readonly step: number; readonly value: number } | null
}

export interface CollapseOptions {
  /** Updates whose mean counts as one value. */
  readonly window: number
  /** Share of the gain at the peak that may be lost. */
  readonly drop: number
}

/** Plain data, part of a checkpoint. */
export const collapseStateSchema = z.strictObject({
  /** The last values, at most `window`. */
  recent: z.array(z.number()),
  /** Mean of the first full window; null until there is one. */
  start: z.number().nullable(),
  /** Standard error of a window's mean, from the spread within the first one; null until there is one. */
  noise: z.number().nullable(),
  /** Highest mean of a window and the update that ended it. */
  peak: z.strictObject({ value: z.number(), step: z.number().int().nonnegative() }).nullable(),
  /** Below the line now; a collapse is told once until the mean has recovered. */
  collapsed: z.boolean(),
})
export type CollapseState = z.output<typeof collapseStateSchema>

export const noCollapse: CollapseState = { recent: [], start: null, noise: null, peak: null, collapsed: false }

/** The highest of many means of pure noise lies some three standard errors above the first one. */
const CLEAR_GAIN = 5

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
 * what the peak had gained over the first window. Without a gain there is nothing to lose: a peak counts once it stands out
 * of the noise by {@link CLEAR_GAIN} standard errors.
 */
export function watchForCollapse(
  { recent, start, noise, peak, collapsed }: CollapseState,
  value: number,
  step: number,
  { window, drop }: CollapseOptions,
): CollapseStep {
  const last = [...recent, value].slice(-window)
  if (last.length < window) {
    return { state: { recent: last, start, noise, peak, collapsed }, mean: null, newPeak: false, collapse: null }
  }
  const mean = last.reduce((sum, x) => sum + x, 0) / window
  const first = start ?? mean
  const error = noise ?? standardError(last, mean)
  const newPeak = peak === null || mean > peak.value
  const top = newPeak ? { value: mean, step } : peak
  const gain = top.value - first
  const clear = gain > Math.max(CLEAR_GAIN * error, 1e-9 * Math.max(1, Math.abs(top.value)))
  const below = clear && top.value - mean > drop * gain
  return {
    state: { recent: last, start: first, noise: error, peak: top, collapsed: below },
    mean,
    newPeak,
    collapse: below && !collapsed ? { mean, peak: top.value, peakStep: top.step } : null,
  }
}

/** Of the mean of a window, by its own spread. */
function standardError(values: readonly number[], mean: number): number {
  if (values.length < 2) return 0
  const variance = values.reduce((sum, x) => sum + (x - mean) ** 2, 0) / (values.length - 1)
  return Math.sqrt(variance / values.length)
}

/** The state with the checkpoint that is to be written of it as the best so far, if it is. */
export function noteBest<S extends Watched>(state: S): S {
  const { step, collapse, best } = state
  if (!collapse || collapse.recent.length === 0) return state
  const value = collapse.recent.reduce((sum, x) => sum + x, 0) / collapse.recent.length
  return best && value <= best.value ? state : { ...state, best: { step, value } }
}

/** Why a run ends that has collapsed. */
export function collapseError({ step, collapse, best }: Watched): CollapseError {
  const { value, step: peakStep } = collapse!.peak!
  const kept = best ? `. The best checkpoint, that of update ${best.step}, is kept` : ''
  return new CollapseError(
    `update ${step}: the mean reward has collapsed from its peak of ${value} at update ${peakStep}; collapse.stop ends the ` +
      `run${kept}`,
    { step, peak: value, peakStep, best: best?.step ?? null },
  )
}
