import { ConsecutiveFailuresError, EnvInputError } from '../errors.js'
import type { TrajectoryGroup } from '../group.js'

/** Stops a run in which group after group fails. Keeps count over batches. */
export class FailureGuard {
  readonly maxConsecutive: number
  #first: TrajectoryGroup | undefined
  #inARow = 0

  /** @param maxConsecutive so many failed groups in a row, and the last one throws */
  constructor(maxConsecutive: number) {
    if (!Number.isInteger(maxConsecutive) || maxConsecutive < 1)
      throw new EnvInputError(`FailureGuard: expected an integer of at least 1, got ${maxConsecutive}`)
    this.maxConsecutive = maxConsecutive
  }

  /** Failed groups in a row until now. */
  get inARow(): number {
    return this.#inARow
  }

  /** @throws ConsecutiveFailuresError with the first failure of the row */
  record(group: TrajectoryGroup): void {
    if (group.status !== 'failed') {
      this.#inARow = 0
      this.#first = undefined
      return
    }
    this.#first ??= group
    this.#inARow++
    if (this.#inARow < this.maxConsecutive) return
    const first = this.#first.failures[0]
    const why = first ? `${first.boundary}: ${first.code}: ${first.message}` : (this.#first.reason ?? 'no reason')
    throw new ConsecutiveFailuresError(`${this.#inARow} groups in a row failed; the first one because of ${why}`, {
      failures: this.#first.failures,
      reason: this.#first.reason,
    })
  }
}
