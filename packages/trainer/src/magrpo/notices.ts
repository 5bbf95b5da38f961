import type { RunNotice } from '../run/loop-session.js'
import type { AnalysedNode } from './analyse.js'
import type { ResolvedConfig } from './config.js'
import type { TrainerState } from './state.js'
import { UNJUDGED, terminationValue } from './tree.js'

/** Something that a person should know, in words. `code` is stable. */
export type Notice = RunNotice<NoticeCode>

export type NoticeCode =
  | 'resumed'
  | 'checkpoint'
  | 'checkpoint_skipped'
  | 'checkpoint_set_aside'
  | 'started_over'
  | 'lock_taken_over'
  | 'length_changed'
  | 'already_finished'
  | 'filtered_sampling'
  | 'on_policy_loss'
  | 'constant_groups'
  | 'nothing_learnt'
  | 'reward_failure'
  | 'no_second_turn'
  | 'threshold_never_reached'
  | 'collapse'
  | 'pairs'
  | 'tracker'

const format = (value: number): string => String(Number(value.toPrecision(4)))

/** Updates after which the absence of later turns is told even within the first epoch. */
const PATIENCE = 10

type Turns = TrainerState['turns']

/** What the nodes of one more update say about the turns. */
export function countTurns(turns: Turns, nodes: readonly AnalysedNode[], config: ResolvedConfig): Turns {
  if (config.numTurns === 1) return turns
  const first = nodes.filter(({ node }) => node.turn === 1).flatMap(({ node }) => node.answers)
  const beforeLast = nodes.filter(({ node }) => node.turn < config.numTurns).flatMap(({ node }) => node.answers)
  const on = config.earlyTermination?.on ?? 'raw'
  const values = beforeLast.map((answer) => terminationValue(answer, { on })).filter((value) => value !== null)
  const highest = values.length > 0 ? Math.max(...values) : null
  return {
    updates: turns.updates + 1,
    firstTurnAnswers: turns.firstTurnAnswers + first.length,
    terminated: turns.terminated + beforeLast.filter(({ ending }) => ending === 'terminated').length,
    secondTurnNodes: turns.secondTurnNodes + nodes.filter(({ node }) => node.turn > 1).length,
    highest: turns.highest === null ? highest : Math.max(turns.highest, highest ?? turns.highest),
    sum: turns.sum + values.reduce((sum, value) => sum + value, 0),
    valued: turns.valued + values.length,
  }
}

/** Notices about a threshold that ends everything or nothing. `endOfEpoch` includes the end of the run. */
function turnNotices(turns: Turns, config: ResolvedConfig, endOfEpoch: boolean): Notice[] {
  if (config.numTurns === 1 || !(endOfEpoch || turns.updates >= PATIENCE)) return []
  const termination = config.earlyTermination
  if (turns.secondTurnNodes === 0) {
    const leftOut = turns.firstTurnAnswers - turns.terminated
    const lost = 'left out by the reward or by an overflow of the context'
    const ended =
      termination &&
      `the ${termination.on} reward (mean ${format(turns.sum / Math.max(turns.valued, 1))}) is above the ` +
        `threshold ${termination.threshold}; raise earlyTermination.threshold`
    const reason =
      turns.terminated === 0
        ? `all were ${lost}`
        : leftOut === 0
          ? `all ended early: ${ended}`
          : `${leftOut} were ${lost}, and ${turns.terminated} ended early: ${ended}`
    return [
      {
        code: 'no_second_turn',
        level: 'warning',
        message: `turn 2 has not happened once in ${turns.updates} updates: of ${turns.firstTurnAnswers} joint answers of turn 1 ${reason}`,
      },
    ]
  }
  if (endOfEpoch && termination && turns.terminated === 0 && turns.highest !== null) {
    return [
      {
        code: 'threshold_never_reached',
        level: 'warning',
        message:
          `no branch has ended early: the highest ${termination.on} reward of ${turns.valued} joint answers is ` +
          `${format(turns.highest)}, the threshold is ${termination.threshold}`,
      },
    ]
  }
  return []
}

/** Notices that are told once in a run. */
const ONCE: ReadonlySet<NoticeCode> = new Set([
  'no_second_turn',
  'threshold_never_reached',
  'filtered_sampling',
  'on_policy_loss',
])

export interface FinishedUpdate {
  readonly before: TrainerState
  readonly after: TrainerState
  readonly nodes: readonly AnalysedNode[]
  readonly metrics: Readonly<Record<string, number>>
  readonly config: ResolvedConfig
  readonly endOfEpoch: boolean
}

/** What a person should know after an update, and the codes told so far that are not to be told again. */
export function updateNotices(update: FinishedUpdate): { readonly notices: Notice[]; readonly told: string[] } {
  const { before, after, config, endOfEpoch } = update
  const all = [
    ...turnNotices(after.turns, config, endOfEpoch),
    rewardFailureNotice(update),
    constantNotice(update),
    filterNotice(update),
    onPolicyNotice(update),
    collapseNotice(update),
  ]
  const notices = all.filter((notice) => notice !== null).filter(({ code }) => !before.told.includes(code))
  const told = notices.map(({ code }) => code).filter((code) => ONCE.has(code))
  return { notices, told: [...after.told, ...told] }
}

function rewardFailureNotice({ before, after, nodes }: FinishedUpdate): Notice | null {
  const failed = after.failures.total - before.failures.total
  if (failed === 0) return null
  const left = nodes
    .flatMap(({ node }) => node.answers)
    .find(({ ending, reason }) => ending === 'left_out' && reason !== UNJUDGED)
  return {
    code: 'reward_failure',
    level: 'warning',
    message: `update ${after.step}: ${failed} reward call(s) failed and their answers are left out: ${left?.reason ?? ''}`,
  }
}

function constantNotice({ after, metrics }: FinishedUpdate): Notice | null {
  if (metrics['frac_constant_groups'] !== 1) return null
  return {
    code: 'constant_groups',
    level: 'info',
    message:
      `update ${after.step}: the returns within every group are equal, so there is nothing to learn from them; ` +
      'these groups made no optimiser step',
  }
}

function filterNotice({ metrics }: FinishedUpdate): Notice | null {
  const kept = Object.entries(metrics).find(([name, value]) => name.endsWith('/kept_mass') && value < 1 - 1e-6)
  if (!kept) return null
  return {
    code: 'filtered_sampling',
    level: 'warning',
    message:
      `top-k or top-p is on: on average the filter kept ${(100 * kept[1]).toFixed(1)} % of the probability (${kept[0]}). ` +
      'Training compares unfiltered log-probs on both sides, so what is trained is not quite what is sampled',
  }
}

function onPolicyNotice({ before, metrics, config }: FinishedUpdate): Notice | null {
  if (before.step > 0 || config.rolloutBufferSize !== null || metrics['frac_constant_groups'] === 1) return null
  return {
    code: 'on_policy_loss',
    level: 'info',
    message:
      'the samples are on-policy: each probability ratio is 1 and the loss says nothing about progress (it may be near 0); ' +
      'the gradient norm shows that something is learnt',
  }
}

function collapseNotice({ before, after }: FinishedUpdate): Notice | null {
  if (!after.collapse.collapsed || before.collapse.collapsed) return null
  const { recent, peak } = after.collapse
  const mean = recent.reduce((sum, value) => sum + value, 0) / recent.length
  const kept = after.best ? `; the best checkpoint (update ${after.best.step}) is kept` : ''
  return {
    code: 'collapse',
    level: 'warning',
    message:
      `update ${after.step}: the mean return has fallen to ${format(mean)} from its peak of ` +
      `${format(peak!.value)} at update ${peak!.step}${kept}`,
  }
}

/** What the updates of a run, or of the part of it since it was resumed, came to. */
export interface Tally {
  readonly updates: number
  /** Whether any agent has made an optimiser step. */
  readonly hasStepped: boolean
  readonly answers: number
  readonly leftOut: number
}

export const noTally: Tally = { updates: 0, hasStepped: false, answers: 0, leftOut: 0 }

export function addToTally(
  { updates, hasStepped, answers, leftOut }: Tally,
  nodes: readonly AnalysedNode[],
  metrics: Readonly<Record<string, number>>,
): Tally {
  const all = nodes.flatMap(({ node }) => node.answers)
  return {
    updates: updates + 1,
    hasStepped: hasStepped || Object.keys(metrics).some((name) => /^agent_\d+\/grad_norm$/.test(name)),
    answers: answers + all.length,
    leftOut: leftOut + all.filter(({ ending }) => ending === 'left_out').length,
  }
}

/** That a run ends without having trained anybody, and why; null when it has. @param step finished updates */
export function nothingLearntNotice({ updates, hasStepped, answers, leftOut }: Tally, step: number): Notice | null {
  if (hasStepped) return null
  const left = `of ${answers} joint answers ${leftOut} were left out by the reward or by an overflow of the context`
  const equal = 'the returns within every group are equal: give a reward that tells the answers to one prompt apart'
  const reason = leftOut === 0 ? equal : leftOut === answers ? left : `${left}, and otherwise ${equal}`
  const which = updates === step ? `${step}` : `last ${updates}`
  return {
    code: 'nothing_learnt',
    level: 'warning',
    message: `none of the ${which} updates made an optimiser step, the agents are as they were: ${reason}`,
  }
}
