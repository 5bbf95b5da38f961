import type { Seat } from './agents.js'
import type { AnalysedNode } from './analyse.js'
import type { Learning } from './learn.js'
import type { Completion } from './types.js'

/** Sums behind a weighted mean. */
class Mean {
  private sum = 0
  private weight = 0

  add(value: number | null | undefined, weight = 1): void {
    if (value === null || value === undefined) return
    this.sum += value * weight
    this.weight += weight
  }

  /** Undefined without any value: the metric is then absent, not 0. */
  get value(): number | undefined {
    return this.weight === 0 ? undefined : this.sum / this.weight
  }
}

export const meanOf = (values: Iterable<number | null>): number | undefined => {
  const mean = new Mean()
  for (const value of values) mean.add(value)
  return mean.value
}

type Metrics = Record<string, number>

function put(metrics: Metrics, name: string, value: number | undefined): void {
  if (value !== undefined) metrics[name] = value
}

/**
 * Per turn: `turn_k/reward_mean` (processed), `turn_k/raw_reward_mean`, `turn_k/expected_return`, how many joint answers there
 * were, and the shares that ended early and that were left out. Means are over joint answers, not over nodes.
 */
export function turnMetrics(nodes: readonly AnalysedNode[], agents: number): Metrics {
  const metrics: Metrics = {}
  for (const turn of [...new Set(nodes.map(({ node }) => node.turn))].sort((a, b) => a - b)) {
    const ofTurn = nodes.filter(({ node }) => node.turn === turn)
    const answers = ofTurn.flatMap(({ node }) => node.answers)
    const name = `turn_${turn}`
    put(metrics, `${name}/reward_mean`, meanOf(answers.flatMap(({ rewards }) => rewards)))
    put(metrics, `${name}/raw_reward_mean`, meanOf(answers.flatMap(({ rawRewards }) => rawRewards)))
    put(metrics, `${name}/expected_return`, meanOf(ofTurn.flatMap(({ jointReturns }) => jointReturns.flat())))
    metrics[`${name}/joint_answers`] = answers.length
    metrics[`${name}/terminated`] = answers.filter(({ ending }) => ending === 'terminated').length / answers.length
    metrics[`${name}/left_out`] = answers.filter(({ ending }) => ending === 'left_out').length / answers.length
    const split = ofTurn.flatMap(({ node }) => (node.roles ? [node.roles.failures / node.completions[0]!.length] : []))
    put(metrics, `${name}/split_failures`, meanOf(split))
    for (let agent = 0; agent < agents; agent++) {
      const own = `agent_${agent}/turn_${turn}`
      put(metrics, `${own}/reward_mean`, meanOf(answers.map(({ rewards }) => rewards[agent] ?? null)))
      put(metrics, `${own}/expected_return`, meanOf(ofTurn.flatMap(({ jointReturns }) => jointReturns[agent]!)))
    }
  }
  return metrics
}

const codePoints = (text: string): number => {
  let count = 0
  for (const _ of text) count++
  return count
}

/** Per agent, from what it sampled: means over completions, or over tokens for `logprob` and `kept_mass`. */
export function samplingMetrics(nodes: readonly AnalysedNode[], seats: readonly Seat[]): Metrics {
  const metrics: Metrics = {}
  for (const { index, kind } of seats) {
    const name = `agent_${index}`
    const completions = nodes.flatMap(({ node }) => node.completions[index]!)
    const groups = nodes.map(({ groups: all }) => all[index]!)
    put(
      metrics,
      `${name}/reward`,
      meanOf(nodes.flatMap(({ node }) => node.answers.map(({ rewards }) => rewards[index] ?? null))),
    )
    put(metrics, `${name}/length_chars`, meanOf(completions.map(({ text }) => codePoints(text))))
    if (kind === 'scripted') continue
    put(metrics, `${name}/length`, meanOf(completions.map(({ tokens }) => tokens.length)))
    put(metrics, `${name}/truncated`, meanOf(completions.map(({ stopReason }) => (stopReason === 'length' ? 1 : 0))))
    put(metrics, `${name}/logprob`, tokenMean(completions, 'logprobs'))
    put(metrics, `${name}/kept_mass`, tokenMean(completions, 'keptMass'))
    if (kind === 'trained') {
      put(metrics, `${name}/frac_constant_groups`, meanOf(groups.map(({ constant }) => (constant ? 1 : 0))))
    }
    put(metrics, `${name}/reference_kl`, meanOf(groups.flatMap(({ kls }) => kls ?? [])))
  }
  return metrics
}

function tokenMean(completions: readonly Completion[], field: 'logprobs' | 'keptMass'): number | undefined {
  const mean = new Mean()
  for (const completion of completions) for (const value of completion[field]) mean.add(value)
  return mean.value
}

/**
 * Per agent, from its policy's optimiser steps: `loss` (sum over the steps), `grad_norm` (mean over steps, before clipping), `entropy`
 * (mean over trained tokens), `sampler_gap` and `sampler_gap_max` (|trainer - sampler log-prob| where the weights were those
 * that sampled), `ratio_max`, `optim_steps`, `learning_rate`. Without a step only the last two are there.
 */
export function learningMetrics(seat: Seat, steps: readonly Learning[], learningRate: number): Metrics {
  const name = `agent_${seat.index}`
  const metrics: Metrics = { [`${name}/optim_steps`]: steps.length, [`${name}/learning_rate`]: learningRate }
  if (steps.length === 0) return metrics
  const entropy = new Mean()
  const own = steps.flatMap(({ agents }) => agents.get(seat.index) ?? [])
  for (const step of steps) entropy.add(step.entropy, step.tokens)
  const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0)
  const gapTokens = sum(own.map((agent) => agent.gapTokens))
  metrics[`${name}/loss`] = sum(steps.map(({ loss }) => loss))
  put(metrics, `${name}/grad_norm`, meanOf(steps.map(({ gradNorm }) => gradNorm)))
  put(metrics, `${name}/entropy`, entropy.value)
  metrics[`${name}/trained_tokens`] = sum(own.map(({ tokens }) => tokens))
  if (gapTokens > 0) {
    metrics[`${name}/sampler_gap`] = sum(own.map(({ gapSum }) => gapSum)) / gapTokens
    metrics[`${name}/sampler_gap_max`] = Math.max(...own.map(({ gapMax }) => gapMax))
  }
  if (own.length > 0) metrics[`${name}/ratio_max`] = Math.max(...own.map(({ ratioMax }) => ratioMax))
  return metrics
}
