import { ConsecutiveFailuresError, EnvInputError } from '../errors.js'
import type { TrajectoryGroup } from '../group.js'

/** Plain data, fit for a checkpoint. */
export interface GroupCounts {
  /** Groups with a result. */
  readonly succeeded: number
  /** Groups that failed since the last one with a result. */
  readonly consecutive: number
  /** Why the first of those failed, in a line; null when there is none. */
  readonly first: string | null
}

/** Stops a run in which group after group fails. Keeps count over batches. */
export class FailureGuard {
  readonly maxConsecutive: number
  #counts: GroupCounts

  /**
   * @param maxConsecutive so many failed groups in a row, and the last one throws
   * @param counts where the counting starts: that of a run which is resumed. Default: nothing yet
   */
  constructor(maxConsecutive: number, counts: GroupCounts = { succeeded: 0, consecutive: 0, first: null }) {
    if (!Number.isInteger(maxConsecutive) || maxConsecutive < 1)
      throw new EnvInputError(`FailureGuard: expected an integer of at least 1, got ${maxConsecutive}`)
    this.maxConsecutive = maxConsecutive
    this.#counts = counts
  }

  get counts(): GroupCounts {
    return this.#counts
  }

  /** Failed groups in a row until now. */
  get inARow(): number {
    return this.#counts.consecutive
  }

  /** @throws ConsecutiveFailuresError with the first failure of the row */
  record(group: TrajectoryGroup): void {
    const { succeeded, consecutive, first } = this.#counts
    if (group.status !== 'failed') {
      this.#counts = { succeeded: succeeded + 1, consecutive: 0, first: null }
      return
    }
    this.#counts = { succeeded, consecutive: consecutive + 1, first: first ?? reasonOf(group) }
    if (this.inARow >= this.maxConsecutive) this.stop()
  }

  /** @throws ConsecutiveFailuresError about the groups that have failed until now */
  stop(): never {
    const { consecutive: count, first } = this.#counts
    const message = `${count} groups in a row failed; the first one because of ${first}`
    throw new ConsecutiveFailuresError(message, { count, first }, { cause: new Error(first ?? 'no failure') })
  }
}

function reasonOf({ failures, reason }: TrajectoryGroup): string {
  const [failure] = failures
  return failure ? `${failure.boundary}: ${failure.code}: ${failure.message}` : (reason ?? 'no reason given')
}
