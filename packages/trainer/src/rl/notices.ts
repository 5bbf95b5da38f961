import type { RunNotice } from '../run/loop-session.js'
import type { CreditedGroup } from './assemble.js'
import type { RLState } from './state.js'

/** Notices that are told once in a run. */
const ONCE: ReadonlySet<string> = new Set(['filtered_sampling'])

export interface FinishedRLUpdate {
  readonly before: RLState
  readonly after: RLState
  readonly metrics: Readonly<Record<string, number>>
  readonly groups: readonly CreditedGroup[]
}

/** What a person should know after an update, and the codes told so far that are not to be told again. */
export function rlNotices(update: FinishedRLUpdate): { readonly notices: RunNotice[]; readonly told: string[] } {
  const { before } = update
  const all = [failed(update), noData(update), stale(update), broken(update), filtered(update), collapsed(update)]
  const notices = all.filter((notice) => notice !== null).filter(({ code }) => !before.told.includes(code))
  const told = notices.map(({ code }) => code).filter((code) => ONCE.has(code))
  return { notices, told: [...before.told, ...told] }
}

function failed({ after, groups }: FinishedRLUpdate): RunNotice | null {
  const lost = groups.filter(({ use }) => use === 'failed')
  const excluded = groups.flatMap(({ group }) => group.excluded)
  if (lost.length === 0 && excluded.length === 0) return null
  const failure = lost[0]?.group.failures[0]
  const why = failure ? `${failure.boundary}: ${failure.message}` : (lost[0]?.group.reason ?? excluded[0]?.reason ?? '')
  return {
    code: 'rollout_failure',
    level: 'warning',
    message: `update ${after.step}: ${lost.length} group(s) failed and ${excluded.length} member(s) have no reward; they are left out: ${why}`,
  }
}

function noData({ after, metrics, groups }: FinishedRLUpdate): RunNotice | null {
  if (metrics['optim/steps'] !== 0 || !groups.some(({ use }) => use === 'constant')) return null
  return {
    code: 'constant_groups',
    level: 'info',
    message:
      `update ${after.step}: the returns within each group are equal, so there is nothing to learn from them; ` +
      'there was no optimiser step',
  }
}

function stale({ after, metrics }: FinishedRLUpdate): RunNotice | null {
  const count = metrics['groups/stale']
  if (!count) return null
  return {
    code: 'stale_samples',
    level: 'warning',
    message: `update ${after.step}: ${count} group(s) were sampled by weights older than allowed, and were dropped`,
  }
}

/** Breaks are normal for formats that re-render history; what is worth telling is that they multiply the training tokens. */
function broken({ after, metrics }: FinishedRLUpdate): RunNotice | null {
  const per = metrics['data/datums_per_trajectory']!
  if (!(per > 1) || after.step > 1) return null
  return {
    code: 'prefix_breaks',
    level: 'info',
    message:
      `update ${after.step}: ${metrics['data/prefix_breaks']} prompts did not start with what came before them, which makes ` +
      `${per.toFixed(2)} training sequences per episode; with history "sampled" an episode is one`,
  }
}

function filtered({ metrics }: FinishedRLUpdate): RunNotice | null {
  const kept = metrics['sample/kept_mass']
  if (kept === undefined) return null
  return {
    code: 'filtered_sampling',
    level: 'warning',
    message:
      `top-k or top-p is on: on average the filter kept ${(100 * kept).toFixed(1)} % of the probability. ` +
      'Training compares unfiltered log-probs on both sides, so what is trained is not quite what is sampled',
  }
}

function collapsed({ before, after }: FinishedRLUpdate): RunNotice | null {
  if (!after.collapse.collapsed || before.collapse.collapsed) return null
  const { peak } = after.collapse
  return {
    code: 'collapse',
    level: 'warning',
    message: `update ${after.step}: the mean reward has fallen far below its peak of ${peak!.value} at update ${peak!.step}`,
  }
}
