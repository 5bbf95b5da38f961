import type { SamplingClient } from '@selfplay/engine'
import { settleAll } from '../deadline.js'
import type { Seat } from './agents.js'
import { baselineKey, groupAdvantages, updateBaselines, type RunningBaselines } from './advantages.js'
import type { ResolvedConfig } from './config.js'
import { creditTree, type CreditedNode } from './credit.js'
import { toSamples, type Sample } from './datums.js'
import { completionKls, penalise } from './reference-kl.js'
import type { JointNode } from './types.js'

/** One agent's completions at one node, with what they are worth. All lists are [k]; null: left out. */
export interface AgentGroup {
  readonly agent: number
  /** After the KL penalty. */
  readonly returns: readonly (number | null)[]
  readonly advantages: readonly (number | null)[]
  /** KL of each completion to the reference; null without one. */
  readonly kls: readonly number[] | null
  /** What a critic expected of each completion's place; absent without one. */
  readonly expected?: readonly (number | null)[]
  /** Nothing can be learnt from it: all advantages are 0. */
  readonly constant: boolean
}

/** A node of an update, from reward to training data. */
export interface AnalysedNode extends CreditedNode {
  /** [agent]. */
  readonly groups: readonly AgentGroup[]
  /** What the trained agents may learn from, all agents together. */
  readonly samples: readonly Sample[]
}

export interface AnalyseOptions {
  readonly config: ResolvedConfig
  readonly seats: readonly Seat[]
  /** Frozen policies to stay near, [agent]; null: that agent has none. */
  readonly references: readonly (SamplingClient | null)[]
  readonly baselines: RunningBaselines
  /** Joint answers of the run before these trees. */
  readonly envStep: number
  readonly signal: AbortSignal
}

export interface Analysis {
  readonly nodes: readonly AnalysedNode[]
  readonly baselines: RunningBaselines
  readonly envStep: number
}

/** Credit, KL penalty, advantages and training sequences of grown trees. Running baselines are read before they change. */
export async function analyseTrees(roots: readonly JointNode[], options: AnalyseOptions): Promise<Analysis> {
  const { config, baselines } = options
  const credit = {
    numTurns: config.numTurns,
    discount: config.discount,
    credit: config.earlyTermination?.credit ?? 'hold',
  }
  const nodes: AnalysedNode[] = []
  let { envStep } = options
  for (const root of roots) {
    const credited = creditTree(root, credit, envStep)
    envStep = Math.max(envStep, ...credited.map((node) => node.envStep))
    nodes.push(...(await settleAll(credited.map((node) => analyseNode(node, options)))))
  }
  const seen = nodes.flatMap(({ node, groups }) =>
    groups.map(({ agent, returns }) => ({ key: baselineKey(agent, node.turn), returns })),
  )
  const next =
    config.advantageMode === 'rae'
      ? updateBaselines(baselines, seen, { decay: config.raeDecay, initial: config.raeInitial })
      : baselines
  return { nodes, baselines: next, envStep }
}

async function analyseNode(node: CreditedNode, options: AnalyseOptions): Promise<AnalysedNode> {
  const { seats } = options
  const groups = await settleAll(seats.map((seat) => analyseGroup(node, seat, options)))
  const samples = seats.flatMap((seat) =>
    seat.kind === 'trained' ? toSamples(node, seat, groups[seat.index]!.advantages) : [],
  )
  return { ...node, groups, samples }
}

async function analyseGroup(credited: CreditedNode, seat: Seat, options: AnalyseOptions): Promise<AgentGroup> {
  const { config, references, baselines, signal } = options
  const { node } = credited
  const agent = seat.index
  const reference = references[agent] ?? null
  let returns: readonly (number | null)[] = credited.returns[agent]!
  let kls: number[] | null = null
  if (config.referenceKl && reference) {
    const { estimator, coef } = config.referenceKl
    const { temperature } = seat.settings
    kls = await completionKls(node.prompts[agent]!, node.completions[agent]!, reference, {
      estimator,
      temperature,
      signal,
    })
    returns = penalise(returns, kls, coef)
  }
  const { values, constant } = groupAdvantages(returns, {
    mode: config.advantageMode,
    normalize: config.advantageNormalization,
    runningBaseline: baselines[baselineKey(agent, node.turn)] ?? config.raeInitial,
  })
  return { agent, returns, advantages: values, kls, constant }
}
