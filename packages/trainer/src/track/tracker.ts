/** One row of metrics: names to numbers, `step` among them. */
export type MetricsRow = Readonly<Record<string, number>>

/** What a tracker is told about a run before its first row. */
export interface RunInfo {
  /** The name of the run folder, or of the task when there is none. */
  readonly name: string
  /** The settings of the run: plain data without secrets. */
  readonly config: Readonly<Record<string, unknown>>
  /** Finished updates when the run was taken up again, else 0. */
  readonly resumedAt: number
}

/** How a run ended. */
export type RunOutcome = 'finished' | 'failed' | 'aborted'

/**
 * Where metrics go besides the run folder. A tracker must not block and must not throw: it queues, and tells its own
 * troubles through its own channel.
 */
export interface Tracker {
  start(run: RunInfo): void
  log(row: MetricsRow): void
  /**
   * Delivers what is queued, within a bounded time. Called once, at the end of the run. The signal is that of the run: when it
   * aborts, or has aborted already, somebody waits for the end.
   */
  finish(outcome: RunOutcome, options?: { readonly signal?: AbortSignal }): Promise<void>
}
