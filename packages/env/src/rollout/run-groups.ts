import { namesOf } from '../options.js'
import { follow } from '../deadline.js'
import { neverAborted } from '../on-abort.js'
import type { EnvGroupBuilder, TrajectoryGroup } from '../group.js'
import { Limiter } from '../limiter.js'
import { deriveSeed } from '../random.js'
import type { FailureGuard } from './failure-guard.js'
import { refuseLimits } from './limits.js'
import { groupRunNames, runGroupWith, runSettings, type GroupRunOptions } from './run-group.js'

export interface GroupsRunOptions extends GroupRunOptions {
  /** Stops the run when too many groups fail in a row, counted in the order of the builders. Default: none. */
  readonly guard?: FailureGuard
}

const checkNames = namesOf<GroupsRunOptions>('runGroups', ...groupRunNames, 'guard')

/**
 * Runs the groups of a batch. At most `concurrency` rollouts run at once over all groups, and at most as many groups are open.
 *
 * @returns the groups in the order of their builders
 * @throws RolloutError under `fail-fast`, ConsecutiveFailuresError from the guard, the signal's reason when aborted; all groups
 *   have settled and are cleaned up by then
 */
export async function runGroups(
  builders: readonly EnvGroupBuilder[],
  options: GroupsRunOptions,
): Promise<TrajectoryGroup[]> {
  refuseLimits('runGroups', options, [...groupRunNames, 'guard'])
  checkNames(options)
  const { guard, seed, signal = neverAborted } = options
  signal.throwIfAborted()
  const settings = runSettings(options)
  const openGroups = new Limiter(settings.limiter.limit)
  const { controller, release } = follow(signal)
  const groups: (TrajectoryGroup | undefined)[] = builders.map(() => undefined)
  let failure: { readonly error: unknown } | undefined
  let judged = 0
  const fail = (error: unknown) => {
    failure ??= { error }
    controller.abort(error)
  }
  const run = async (builder: EnvGroupBuilder, index: number) => {
    try {
      const own = seed === undefined ? undefined : deriveSeed(seed, index)
      groups[index] = await openGroups.run(
        () => runGroupWith(builder, settings, own, controller.signal),
        controller.signal,
      )
      for (; groups[judged]; judged++) guard?.record(groups[judged]!)
    } catch (error) {
      fail(error)
    }
  }
  await Promise.all(builders.map(run))
  release()
  signal.throwIfAborted()
  if (failure) throw failure.error
  return groups as TrajectoryGroup[]
}
