import type { SamplingClient, TrainingClient } from '@selfplay/engine'
import { FailureGuard, type GroupCounts, type TrajectoryGroup } from '@selfplay/env'
import { ConfigError } from '../errors.js'
import { watchForCollapse } from '../run/collapse.js'
import { optimiserOptions } from '../optimiser-settings.js'
import { assembleDatums, creditBatch, type CreditedGroup, type MemberDatums } from './assemble.js'
import { rlLoss, type ResolvedRLSettings } from './config.js'
import { penaliseKl, referenceLogprobs } from './kl.js'
import {
  dataMetrics,
  groupMetrics,
  klFromSampler,
  optimiserMetrics,
  samplingMetrics,
  versionMetrics,
} from './measure.js'
import { rememberVersion, type RLState } from './state.js'
import { trainSubsteps, type Learnt, type RLDatum } from './substeps.js'

export interface RLUpdateContext {
  readonly client: TrainingClient
  readonly settings: ResolvedRLSettings
  /** What `klPenalty` compares with; null only without one. */
  readonly reference: SamplingClient | null
  readonly totalSteps: number
  /** Batches of one pass over the data set. */
  readonly batches: number
  /** Stops the forward passes before training. */
  readonly signal: AbortSignal
  /** Stops training: the same, a grace period later. */
  readonly trainSignal: AbortSignal
  /** Called before the weights change. */
  readonly onWeightsChange?: () => void
}

export interface RLUpdateResult {
  readonly state: RLState
  /** `time/*` and `perf/*` vary from run to run, all others are exact. */
  readonly metrics: Record<string, number>
  readonly groups: readonly CreditedGroup[]
}

/**
 * One update from the groups of one batch: credit, training sequences, KL penalty, optimiser steps. Changes the weights and
 * nothing else; the new state is returned.
 *
 * @throws ConsecutiveFailuresError when too many groups in a row have failed; ConfigError for `klPenalty` without a reference;
 *   what `trainSubsteps` throws.
 */
export async function runRLUpdate(
  groups: readonly TrajectoryGroup[],
  state: RLState,
  context: RLUpdateContext,
): Promise<RLUpdateResult> {
  const { client, settings } = context
  const failures = countFailures(state.failures, groups, settings.maxConsecutiveFailures)
  const credited = creditBatch(groups, {
    ...creditOptions(settings),
    versions: state.versions,
    maxStaleness: settings.offPolicy?.maxStaleness ?? 0,
  })
  const sampledAt = versionMetrics(groups, client.step)
  const members = assembleDatums(credited, settings)
  const started = performance.now()
  const penalised = await withKlPenalty(members, context)
  const compared = performance.now()
  const optim = optimiserOptions(settings, state.step, context.totalSteps)
  const learnt = await trainSubsteps(client, penalised.data, {
    loss: rlLoss(settings),
    optim,
    numSubsteps: settings.numSubsteps,
    maxSamplerGap: settings.maxSamplerGap,
    step: state.step,
    signal: context.trainSignal,
    ...(context.onWeightsChange && { onStep: context.onWeightsChange }),
  })
  const trained = performance.now()
  const post = await postKl(penalised.data, learnt, client, settings, context.trainSignal)
  const step = state.step + 1
  const metrics: Record<string, number> = {
    step,
    'progress/batch': step,
    'progress/epoch': Math.floor(state.step / context.batches),
    'progress/done_frac': step / context.totalSteps,
    ...groupMetrics(groups),
    ...creditMetrics(credited),
    ...samplingMetrics(groups),
    ...sampledAt,
    ...dataMetrics(penalised.data, countSequences(members)),
    ...(penalised.kl !== null && { kl_policy_base: penalised.kl }),
    'optim/lr': optim.learningRate,
    ...optimiserMetrics(penalised.data, learnt),
    ...post,
    ...(penalised.kl !== null && { 'time/reference': (compared - started) / 1000 }),
    'time/train': (trained - compared) / 1000,
  }
  return { state: advance(state, { client, settings, failures, metrics }), metrics, groups: credited }
}

const creditOptions = (settings: ResolvedRLSettings) => ({
  credit: settings.credit,
  mode: settings.advantageMode,
  normalize: settings.advantageNormalization,
  discount: settings.discount,
  // A group without a difference still has to stay near the reference.
  keepConstant: settings.klPenalty !== null,
})

interface Penalised {
  readonly data: readonly RLDatum[]
  /** Null: there is no penalty. */
  readonly kl: number | null
}

async function withKlPenalty(
  members: readonly MemberDatums[],
  { settings, reference, signal }: RLUpdateContext,
): Promise<Penalised> {
  const data = members.flatMap((member) => member.data)
  if (!settings.klPenalty) return { data, kl: null }
  if (!reference)
    throw new ConfigError(
      'klPenalty compares with a reference policy, and there is none: pass reference, or leave it out',
    )
  const episodes = members.map((member) => member.data.map(({ datum }) => datum))
  const references = await referenceLogprobs(reference, episodes, { signal })
  const { episodes: penalised, kl } = penaliseKl(episodes, references, settings.klPenalty)
  const datums = penalised.flat()
  return { data: data.map((item, d) => ({ ...item, datum: datums[d]! })), kl }
}

/** `kl_pre_post_*`: from the weights that each sequence was trained with to those after the update, on the sampled tokens. */
async function postKl(
  data: readonly RLDatum[],
  { logprobs }: Learnt,
  client: TrainingClient,
  { computePostKl }: ResolvedRLSettings,
  signal: AbortSignal,
): Promise<Record<string, number>> {
  if (!computePostKl || data.length === 0) return {}
  const before = data.map(({ datum }, d) => ({ datum: { ...datum, samplerLogprobs: logprobs[d]! } }))
  const after = await client.forward(
    data.map(({ datum }) => datum),
    { name: 'cross_entropy' },
    { signal },
  )
  const { v1, v2 } = klFromSampler(before, after.logprobs)
  return { kl_pre_post_v1: v1, kl_pre_post_v2: v2 }
}

const countSequences = (members: readonly MemberDatums[]) => ({
  episodes: members.length,
  sequences: members.reduce((sum, { sequences }) => sum + sequences, 0),
  breaks: members.reduce((sum, { breaks }) => sum + breaks, 0),
})

/** What was done with the groups, and how far apart the returns within them are. */
function creditMetrics(credited: readonly CreditedGroup[]): Record<string, number> {
  const judged = credited.flatMap(({ credit }) => (credit === null ? [] : [credit]))
  const constant = judged.filter((credit) => credit.constant).length
  const stale = credited.filter(({ use }) => use === 'stale').length
  return {
    frac_constant_groups: judged.length === 0 ? 0 : constant / judged.length,
    'groups/constant': constant,
    'groups/stale': stale,
    'groups/trained': credited.filter(({ use }) => use === 'trained').length,
    ...(judged.length > 0 && { 'reward/group_std': judged.reduce((sum, { std }) => sum + std, 0) / judged.length }),
  }
}

/**
 * Counts failed groups in a row over updates.
 *
 * @throws ConsecutiveFailuresError when there are too many or nothing has worked so far.
 */
function countFailures(before: GroupCounts, groups: readonly TrajectoryGroup[], limit: number): GroupCounts {
  const guard = new FailureGuard(limit, before)
  for (const group of groups) guard.record(group)
  if (guard.counts.succeeded === 0 && guard.inARow > 0) guard.stop()
  return guard.counts
}

interface Progress {
  readonly client: TrainingClient
  readonly settings: ResolvedRLSettings
  readonly failures: GroupCounts
  readonly metrics: Readonly<Record<string, number>>
}

function advance(state: RLState, { client, settings, failures, metrics }: Progress): RLState {
  const step = state.step + 1
  const value = metrics['env/all/reward/total']
  const collapse =
    settings.collapse && value !== undefined
      ? watchForCollapse(state.collapse, value, step, settings.collapse).state
      : state.collapse
  return {
    ...state,
    step,
    versions: rememberVersion(state.versions, client.step, settings.offPolicy?.maxStaleness ?? 0),
    failures,
    collapse: { ...collapse, recent: [...collapse.recent] },
  }
}
