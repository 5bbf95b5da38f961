import type { GroupMember, TrajectoryGroup } from '@selfplay/env'
import { groupCredit, groupRewards, type CreditOptions, type GroupCredit } from './credit.js'
import { trajectoryDatums, type DatumOptions } from './datums.js'
import { staleness } from './state.js'
import type { RLDatum } from './substeps.js'

/** What became of a group in an update. `failed` and `filtered` are the rollouts' own; the rest is credit's. */
export type GroupUse = 'trained' | 'constant' | 'stale' | 'failed' | 'filtered'

/** A group of a batch, with what its members may learn. */
export interface CreditedGroup {
  /** Place in the batch. */
  readonly index: number
  readonly group: TrajectoryGroup
  readonly use: GroupUse
  /** Null for groups that were not credited. */
  readonly credit: GroupCredit | null
}

export interface CreditBatchOptions extends CreditOptions {
  /** Optimiser steps at the last changes of the weights, ascending, that of now last. */
  readonly versions: readonly number[]
  /** Changes of the weights that a sample may be behind. */
  readonly maxStaleness: number
  /** Keep groups whose advantages are all 0: for losses with a term of their own, such as a KL penalty. */
  readonly keepConstant: boolean
}

/** The oldest policy that sampled in a group; null where no sampler tells. */
export function oldestVersion({ members }: Pick<TrajectoryGroup, 'members'>): number | null {
  const versions = members.flatMap(({ trajectory }) =>
    trajectory.transitions.flatMap(({ action }) => (action.policyVersion === undefined ? [] : [action.policyVersion])),
  )
  return versions.length === 0 ? null : versions.reduce((a, b) => Math.min(a, b))
}

/** Gives credit to the groups of a batch, and says of each what is done with it. */
export function creditBatch(groups: readonly TrajectoryGroup[], options: CreditBatchOptions): CreditedGroup[] {
  return groups.map((group, index) => {
    if (group.status === 'failed' || group.status === 'filtered')
      return { index, group, use: group.status, credit: null }
    const version = oldestVersion(group)
    if (version !== null && staleness(version, options.versions) > options.maxStaleness)
      return { index, group, use: 'stale', credit: null }
    const credit = groupCredit(groupRewards(group), options)
    return { index, group, use: credit.constant && !options.keepConstant ? 'constant' : 'trained', credit }
  })
}

/** The training sequences of one member. */
export interface MemberDatums {
  readonly member: GroupMember
  readonly data: readonly RLDatum[]
  readonly breaks: number
  readonly sequences: number
}

/** The training sequences of the groups that are trained on, member by member, in order. */
export function assembleDatums(credited: readonly CreditedGroup[], options: DatumOptions): MemberDatums[] {
  return credited.flatMap(({ index, group, use, credit }) => {
    if (use !== 'trained' || credit === null) return []
    return group.members.map((member, k) => {
      const { datums, breaks, sequences } = trajectoryDatums(member.trajectory, credit.advantages[k]!, options)
      const data = datums.map((found): RLDatum => ({ ...found, group: index, slot: member.slot }))
      return { member, data, breaks, sequences }
    })
  })
}
