import { z } from 'zod'
import { collapseStateSchema, noCollapse } from '../run/collapse.js'

const count = z.number().int().nonnegative()

/**
 * Everything that decides the rest of a run besides the weights and the optimiser. There is no random stream: every draw is
 * seeded by the run's seed and its place (update, group, slot, attempt, turn), so `step` says where all of them stand.
 */
export const rlStateSchema = z.strictObject({
  /** Finished updates, and batches taken from the data set. */
  step: count,
  /** The step of the last evaluation; -1 before the first. */
  evaluatedAt: z.number().int(),
  /** Optimiser steps at the last updates whose weights may still be in use, ascending; the last entry is that of now. */
  versions: z.array(count).min(1),
  failures: z.strictObject({
    /** Groups with a result so far. */
    succeeded: count,
    /** Groups that failed since the last one with a result. */
    consecutive: count,
    /** Why the first of those failed. */
    first: z.string().nullable(),
  }),
  collapse: collapseStateSchema,
  /** The checkpoint with the highest mean reward. */
  best: z.strictObject({ step: count, value: z.number() }).nullable(),
  /** Notices that are told once. */
  told: z.array(z.string()),
  /** Seconds spent in updates, over all sessions. */
  seconds: z.number().nonnegative(),
})

export type RLState = z.output<typeof rlStateSchema>

/** @param version optimiser steps behind the client's weights now */
export const initialRLState = (version: number): RLState => ({
  step: 0,
  evaluatedAt: -1,
  versions: [version],
  failures: { succeeded: 0, consecutive: 0, first: null },
  collapse: { ...noCollapse, recent: [] },
  best: null,
  told: [],
  seconds: 0,
})

/** How many changes of the weights a version is behind. `versions` ascend and end with the current one. */
export const staleness = (version: number, versions: readonly number[]): number =>
  versions.filter((known) => known > version).length

/** The versions to remember after an update, enough to tell whether one is more than `maxStaleness` behind. */
export function rememberVersion(versions: readonly number[], version: number, maxStaleness: number): number[] {
  const all = versions.at(-1) === version ? [...versions] : [...versions, version]
  return all.slice(-(maxStaleness + 1))
}
