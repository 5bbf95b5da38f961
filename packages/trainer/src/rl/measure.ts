import type { Datum } from '@selfplay/engine'
import { summarizeByTag, summarizeGroups, type TrajectoryGroup } from '@selfplay/env'
import { samplerGap, type Learnt, type RLDatum } from './substeps.js'

type Metrics = Record<string, number>

/**
 * The numbers of a batch of groups under the names of its reports: `env/all/*`, `env/<tag>/*` for tags that not all groups
 * carry, and `rollout_errors/*`. Means are over episodes or turns, never over batches of them.
 */
export function groupMetrics(groups: readonly TrajectoryGroup[]): Metrics {
  const metrics: Metrics = {}
  for (const [name, value] of Object.entries(summarizeGroups(groups)))
    metrics[name.startsWith('rollout_errors/') ? name : `env/all/${name}`] = value
  for (const [tag, values] of Object.entries(summarizeByTag(groups)))
    for (const [name, value] of Object.entries(values)) metrics[`env/${tag}/${name}`] = value
  return metrics
}

/** Calls back for every trained token. */
function eachTrained(data: readonly { readonly datum: Datum }[], visit: (d: number, t: number) => void): number {
  let tokens = 0
  data.forEach(({ datum }, d) =>
    datum.weights!.forEach((weight, t) => {
      if (weight === 0) return
      visit(d, t)
      tokens++
    }),
  )
  return tokens
}

/** Mean of q - p and half the mean of (q - p)^2 over the trained tokens; q: sampler, p: the given log-probs (Schulman 2020, k1 and k2). */
export function klFromSampler(
  data: readonly { readonly datum: Datum }[],
  logprobs: readonly Float32Array[],
): { readonly v1: number; readonly v2: number } {
  let first = 0
  let second = 0
  const tokens = eachTrained(data, (d, t) => {
    const difference = data[d]!.datum.samplerLogprobs![t]! - logprobs[d]![t]!
    first += difference
    second += difference * difference
  })
  return tokens === 0 ? { v1: 0, v2: 0 } : { v1: first / tokens, v2: second / tokens / 2 }
}

/** What was trained on: sequences, tokens, and how many prompts broke with their history. */
export function dataMetrics(
  data: readonly RLDatum[],
  counts: { readonly episodes: number; readonly sequences: number; readonly breaks: number },
): Metrics {
  const trained = eachTrained(data, () => {})
  return {
    'data/datums': data.length,
    'data/datums_per_trajectory': counts.episodes === 0 ? 0 : counts.sequences / counts.episodes,
    'data/prefix_breaks': counts.breaks,
    'data/trained_tokens': trained,
    'data/input_tokens': data.reduce((sum, { datum }) => sum + datum.tokens.length, 0),
  }
}

/**
 * `optim/*`: loss and gradient norm are means over the optimiser steps, everything else over trained tokens. Nothing but
 * `optim/steps` when there was no step.
 */
export function optimiserMetrics(data: readonly RLDatum[], learnt: Learnt): Metrics {
  const { steps, logprobs, fresh } = learnt
  const metrics: Metrics = { 'optim/steps': steps.length }
  if (steps.length === 0) return metrics
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length
  let entropy = 0
  let ratioMax = 0
  const tokens = eachTrained(data, (d, t) => {
    const sampled = data[d]!.datum.samplerLogprobs![t]!
    entropy -= sampled
    ratioMax = Math.max(ratioMax, Math.exp(logprobs[d]![t]! - sampled))
  })
  const { v1, v2 } = klFromSampler(data, logprobs)
  metrics['optim/loss'] = mean(steps.map(({ loss }) => loss))
  metrics['optim/grad_norm'] = mean(steps.map(({ gradNorm }) => gradNorm))
  metrics['optim/kl_sample_train_v1'] = v1
  metrics['optim/kl_sample_train_v2'] = v2
  metrics['optim/entropy'] = entropy / tokens
  metrics['optim/ratio_max'] = ratioMax
  const gap = samplerGap(data, logprobs, fresh)
  if (gap.tokens > 0) {
    metrics['optim/sampler_gap_mean'] = gap.mean
    metrics['optim/sampler_gap_max'] = gap.max
  }
  return metrics
}

/** `sample/kept_mass`, where top-k or top-p was on: the mean probability that the filter kept. */
export function samplingMetrics(groups: readonly TrajectoryGroup[]): Metrics {
  let sum = 0
  let tokens = 0
  for (const { members } of groups)
    for (const { trajectory } of members)
      for (const { action } of trajectory.transitions) {
        sum += action.keptMass?.reduce((total, mass) => total + mass, 0) ?? action.tokens.length
        tokens += action.tokens.length
      }
  return tokens > 0 && sum < tokens * (1 - 1e-6) ? { 'sample/kept_mass': sum / tokens } : {}
}

/** Versions of the policies that sampled, in optimiser steps. Empty where no sampler tells. */
export function versionMetrics(groups: readonly TrajectoryGroup[], trainingStep: number): Metrics {
  const versions = groups.flatMap(({ members }) =>
    members.flatMap(({ trajectory }) =>
      trajectory.transitions.flatMap(({ action }) =>
        action.policyVersion === undefined ? [] : [action.policyVersion],
      ),
    ),
  )
  if (versions.length === 0) return {}
  return {
    'sampling_client/step_min': versions.reduce((a, b) => Math.min(a, b)),
    'sampling_client/step_max': versions.reduce((a, b) => Math.max(a, b)),
    'sampling_client/step_mean': versions.reduce((a, b) => a + b, 0) / versions.length,
    'training_client/step': trainingStep,
  }
}
