import { settleAll, withDeadline } from '../deadline.js'
import { Grace } from '../grace.js'
import type { RunOutcome, Tracker } from './tracker.js'

/** Longer than any tracker of ours takes. */
const FINISH_SECONDS = 60
/** The same once the run's signal has aborted. */
const ABORTED_SECONDS = 5

export interface FinishOptions {
  /** Of the run. Default: none. */
  readonly signal?: AbortSignal
  /** Most seconds for each. Default 60. */
  readonly seconds?: number
  /** Most seconds after an abort. Default 5. */
  readonly abortedSeconds?: number
}

/**
 * Lets all trackers deliver what they hold.
 *
 * @throws DeadlineError when one has not settled in time, so that a run always ends; the signal's reason when that is because it
 *   aborted; what one rejects with.
 */
export async function finishTrackers(
  trackers: readonly Tracker[],
  outcome: RunOutcome,
  { signal, seconds = FINISH_SECONDS, abortedSeconds = ABORTED_SECONDS }: FinishOptions = {},
): Promise<void> {
  const outer = signal ?? new AbortController().signal
  const grace = new Grace(outer, abortedSeconds, true)
  try {
    await settleAll(
      trackers.map((tracker, index) =>
        withDeadline(() => tracker.finish(outcome, { signal: outer }), {
          seconds,
          signal: grace.signal,
          what: `finish of trackers[${index}]`,
        }),
      ),
    )
  } finally {
    grace.end()
  }
}
