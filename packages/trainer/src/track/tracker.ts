/** One row of metrics: names to numbers, `step` among them. */
export type MetricsRow = Readonly<Record<string, number>>

/** What a tracker is told about a run before its first row, and each time the run is taken up again. */
export interface RunInfo {
  /** The name of the run folder, or of the task when there is none. */
  readonly name: string
  /** The settings of the run: plain data without secrets. */
  readonly config: Readonly<Record<string, unknown>>
  /** Finished updates when the run was taken up again, else 0. */
  readonly resumedAt: number
}

/** How a run, or this part of it, ended. */
export type RunOutcome = 'finished' | 'failed' | 'aborted'

/**
 * Where metrics go besides the run folder. A tracker must not block and must not throw: it queues, and tells its own
 * troubles through its own channel.
 *
 * A run that is interrupted and taken up again has several parts, whether in one process (`updates()` was left and is called
 * again) or in several. Each part is one `start`, its rows, and one `finish`; a tracker that outlives a part is started again.
 */
export interface Tracker {
  /** Begins a part of a run; `resumedAt` says from where. The one before has been finished. */
  start(run: RunInfo): void
  /** Called between `start` and `finish` only. */
  log(row: MetricsRow): void
  /**
   * Delivers what is queued, within a bounded time. Called once for each `start`, when the loop has ended or was left. The
   * signal is that of the run: when it aborts, or has aborted already, somebody waits for the end.
   */
  finish(outcome: RunOutcome, options?: { readonly signal?: AbortSignal }): Promise<void>
}
