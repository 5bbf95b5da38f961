import { settleAll, withDeadline } from '../deadline.js'
import type { Tracker } from './tracker.js'

/** Longer than any tracker of ours takes. */
const FINISH_SECONDS = 60

/**
 * Lets all trackers deliver what they hold.
 *
 * @throws DeadlineError when one has not settled in time, so that a run always ends; what one rejects with.
 */
export async function finishTrackers(
  trackers: readonly Tracker[],
  outcome: Parameters<Tracker['finish']>[0],
  seconds: number = FINISH_SECONDS,
): Promise<void> {
  const { signal } = new AbortController()
  await settleAll(
    trackers.map((tracker, index) =>
      withDeadline(() => tracker.finish(outcome), { seconds, signal, what: `finish of trackers[${index}]` }),
    ),
  )
}
