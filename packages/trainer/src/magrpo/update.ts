import { NonFiniteError, type OptimStepOptions, type SamplingClient, type TrainingClient } from '@selfplay/engine'
import type { Batch } from '../dataset.js'
import { runLimited } from '../deadline.js'
import { Random } from '@selfplay/env'
import { scheduleFactor } from '../schedule.js'
import { watchForCollapse } from '../run/collapse.js'
import { policiesAtOnce, type Policy, type Samplers, type Table } from './agents.js'
import { analyseTrees, type AnalysedNode, type Analysis } from './analyse.js'
import { NodeBuffer, type BufferedNode } from './buffer.js'
import { lossOf, type ResolvedConfig } from './config.js'
import type { ExtendedAnalysis, Extension } from './extension.js'
import type { Sample } from './datums.js'
import { RewardFailures } from './judge.js'
import { learn, type Learning } from './learn.js'
import { learningMetrics, meanOf, samplingMetrics, turnMetrics } from './metrics.js'
import { countTurns, updateNotices, type Notice } from './notices.js'
import type { TrainerState } from './state.js'
import { growTrees, type TreeOptions } from './tree.js'
import type { PromptRow, Task } from './types.js'
import { withWeightsLeft } from './weights-left.js'

/** What an update is made of besides its batch and the state. */
export interface UpdateContext<Row> {
  readonly config: ResolvedConfig
  readonly table: Table
  readonly task: Task<Row>
  readonly samplers: Samplers
  /** [agent]. */
  readonly references: readonly (SamplingClient | null)[]
  /** Of a relative of MAGRPO. */
  readonly extension: Extension | null
  /** Null: unknown. */
  readonly totalSteps: number | null
  /** Stops sampling, judging and transitions. */
  readonly signal: AbortSignal
  /** Stops training: the same, a grace period later. */
  readonly trainSignal: AbortSignal
  /** Called before the first weights change. */
  readonly onWeightsChange: () => void
}

export interface UpdateResult {
  readonly state: TrainerState
  /** Numbers of the update; `time/*` and `perf/*` vary from run to run, all others are exact. */
  readonly metrics: Record<string, number>
  readonly nodes: readonly AnalysedNode[]
  readonly notices: readonly Notice[]
}

/** One optimiser step that is to be made: the samples of one policy. */
interface PlannedStep {
  readonly samples: readonly Sample[]
}

/**
 * One update: grow the trees of a batch, give credit, train each policy on what it may learn from. Changes the weights, and
 * nothing else: the new state is returned.
 */
export async function runUpdate<Row extends PromptRow>(
  batch: Batch<Row>,
  state: TrainerState,
  context: UpdateContext<Row>,
): Promise<UpdateResult> {
  const started = performance.now()
  const { config, table } = context
  const random = new Random(state.random as [number, number, number, number])
  const failures = new RewardFailures(config.maxConsecutiveRewardFailures, state.failures)
  for (const { client, trained } of table.policies) if (trained) client?.prepare?.(lossOf(config))
  const trees = await growTrees(batch.rows, treeOptions(context, failures, random.word())).catch((error: unknown) => {
    throw atUpdate(error, state.step + 1)
  })
  const grown = performance.now()
  const { references, signal } = context
  const options = { config, seats: table.seats, references, baselines: state.baselines, envStep: state.envStep, signal }
  const analysis: ExtendedAnalysis = await (context.extension?.analyse ?? analyseTrees)(trees.roots, options)
  const analysed = performance.now()
  const { plans, buffers } = plan(analysis.nodes, batch.endOfEpoch, state, context, random)
  const learnt = await trainPolicies(plans, state.step, analysis, context)
  const extra = await trainOthers(analysis, learnt, state.step, context)
  const trained = performance.now()

  const times = {
    'time/sample': trees.times.sample,
    'time/reward': trees.times.reward,
    'time/transition': trees.times.transition,
    'time/credit': (analysed - grown) / 1000,
    'time/train': (trained - analysed) / 1000,
    'time/total': (trained - started) / 1000,
  }
  const metrics = {
    step: state.step + 1,
    epoch: batch.epoch,
    env_step: analysis.envStep,
    ...measure(analysis, learnt, state.step, context),
    ...extra,
    'reward/failures': failures.total - state.failures.total,
    ...times,
    ...performanceMetrics(analysis.nodes, learnt, times),
  }
  const next = advance(state, analysis, { random, buffers, failures, config, metrics, seconds: times['time/total'] })
  const { endOfEpoch } = batch
  const { notices, told } = updateNotices({
    before: state,
    after: next,
    nodes: analysis.nodes,
    metrics,
    config,
    endOfEpoch,
  })
  return { state: { ...next, told }, metrics, nodes: analysis.nodes, notices }
}

const atUpdate = (error: unknown, step: number): unknown =>
  error instanceof NonFiniteError
    ? new NonFiniteError(`update ${step}, ${error.message}`, { ...error.details, step })
    : error

function treeOptions<Row>(context: UpdateContext<Row>, failures: RewardFailures, seed: number): TreeOptions<Row> {
  const { config, table, task, samplers, signal } = context
  return {
    task,
    seats: table.seats,
    samplers,
    numTurns: config.numTurns,
    generationsAt: () => config.numGenerations,
    jointMode: config.jointMode,
    earlyTermination: config.earlyTermination,
    externalPromptPassthrough: config.externalPromptPassthrough,
    temperature: null,
    seed,
    maxConcurrentPolicies: policiesAtOnce(config, table.seats),
    rewardTimeoutSeconds: config.rewardTimeoutSeconds,
    transitionTimeoutSeconds: config.transitionTimeoutSeconds,
    failures,
    signal,
  }
}

/** The optimiser steps of each policy, [policy][step], and what stays in the buffers. */
function plan<Row>(
  nodes: readonly AnalysedNode[],
  endOfEpoch: boolean,
  state: TrainerState,
  { config, table: { policies } }: UpdateContext<Row>,
  random: Random,
): { plans: Map<Policy, PlannedStep[]>; buffers: readonly (readonly BufferedNode[])[] } {
  const plans = new Map<Policy, PlannedStep[]>()
  const buffers = state.buffers.map((held) => [...held])
  for (const policy of policies.filter(({ trained }) => trained)) {
    const own = nodes.map(({ envStep, node, samples }) => ({
      envStep,
      turn: node.turn,
      samples: samples.filter(({ agent }) => policy.seats.includes(agent)),
    }))
    if (config.rolloutBufferSize === null) {
      const samples = own.flatMap((node) => node.samples)
      plans.set(policy, samples.length > 0 ? [{ samples }] : [])
      continue
    }
    const size = config.rolloutBufferSize
    const buffer = new NodeBuffer(size, config.trainBatchSize ?? size, buffers[policy.index])
    const groups = own.flatMap((node) => buffer.push(node, random))
    if (endOfEpoch) groups.push(...buffer.drain(random))
    buffers[policy.index] = [...buffer.waiting]
    const steps = groups.flatMap(({ chunks }) =>
      chunks.map((chunk) => ({ samples: chunk.flatMap((node) => node.samples) })),
    )
    plans.set(
      policy,
      steps.filter(({ samples }) => samples.length > 0),
    )
  }
  return { plans, buffers }
}

/** Takes the planned steps, policy by policy; [policy] -> what each step was like. */
async function trainPolicies<Row>(
  plans: ReadonlyMap<Policy, readonly PlannedStep[]>,
  step: number,
  { beforeStep }: ExtendedAnalysis,
  context: UpdateContext<Row>,
): Promise<Map<Policy, Learning[]>> {
  const { config, trainSignal, onWeightsChange } = context
  const loss = lossOf(config)
  const learnt = new Map<Policy, Learning[]>()
  const jobs = [...plans].map(([policy, steps]) => async () => {
    const done: Learning[] = []
    learnt.set(policy, done)
    const optim = policyOptim(policy, step, context)
    for (const { samples } of steps) {
      trainSignal.throwIfAborted()
      const client = policy.client as TrainingClient
      const options = { loss, optim, maxSamplerGap: config.maxSamplerGap, step, signal: trainSignal }
      const first = done.length === 0 && beforeStep !== undefined
      const add = first && { beforeStep: () => beforeStep(policy, { step, signal: trainSignal }) }
      done.push(await learn(client, samples, { ...options, ...add, onStep: onWeightsChange }))
    }
  })
  try {
    await runLimited(jobs, policiesAtOnce(config, context.table.seats))
  } catch (error) {
    throw withWeightsLeft(error, agentsOf(steppedPolicies(learnt)))
  }
  return learnt
}

const steppedPolicies = (learnt: ReadonlyMap<Policy, readonly Learning[]>): ReadonlySet<Policy> =>
  new Set([...learnt].filter(([, steps]) => steps.length > 0).map(([policy]) => policy))

const agentsOf = (policies: ReadonlySet<Policy>): number[] =>
  [...policies].flatMap(({ seats }) => seats).sort((a, b) => a - b)

async function trainOthers<Row>(
  { train }: ExtendedAnalysis,
  learnt: ReadonlyMap<Policy, readonly Learning[]>,
  step: number,
  context: UpdateContext<Row>,
): Promise<Record<string, number>> {
  if (!train) return {}
  const stepped = steppedPolicies(learnt)
  const optim = (learningRate: number) => adamOptions(learningRateAt(learningRate, step, context), context.config)
  const { trainSignal: signal, onWeightsChange } = context
  try {
    return await train({ step, optim, stepped, signal, onWeightsChange })
  } catch (error) {
    throw withWeightsLeft(error, agentsOf(stepped))
  }
}

/** The learning rate of the update after `step` finished ones. */
function learningRateAt<Row>(
  seatRate: number,
  step: number,
  { config, totalSteps }: Pick<UpdateContext<Row>, 'config' | 'totalSteps'>,
): number {
  const schedule = {
    kind: config.learningRateSchedule,
    warmupSteps: config.warmupSteps,
    finalFraction: config.finalLearningRateFraction,
  }
  return seatRate * scheduleFactor(schedule, step, totalSteps)
}

/** @internal AdamW's settings of a policy for the update after `step` finished ones. */
export function policyOptim(
  policy: Policy,
  step: number,
  context: Pick<UpdateContext<unknown>, 'config' | 'table' | 'totalSteps'>,
): OptimStepOptions {
  const { config, table } = context
  const { learningRate } = table.seats[policy.seats[0]!]!.settings
  return adamOptions(learningRateAt(learningRate, step, context), config)
}

function adamOptions(learningRate: number, config: ResolvedConfig): OptimStepOptions {
  return {
    learningRate,
    beta1: config.adamBeta1,
    beta2: config.adamBeta2,
    epsilon: config.adamEpsilon,
    weightDecay: config.weightDecay,
    maxGradNorm: config.maxGradNorm,
  }
}

function measure<Row>(
  analysis: Analysis,
  learnt: ReadonlyMap<Policy, readonly Learning[]>,
  step: number,
  context: UpdateContext<Row>,
): Record<string, number> {
  const { seats } = context.table
  const { nodes } = analysis
  const trained = seats.filter(({ kind }) => kind === 'trained')
  const constant = nodes.flatMap(({ groups }) => trained.map(({ index }) => (groups[index]!.constant ? 1 : 0)))
  const metrics = { ...turnMetrics(nodes, seats.length), ...samplingMetrics(nodes, seats) }
  for (const seat of trained) {
    const rate = learningRateAt(seat.settings.learningRate, step, context)
    Object.assign(metrics, learningMetrics(seat, learnt.get(seat.policy!) ?? [], rate))
  }
  return { ...metrics, frac_constant_groups: meanOf(constant) ?? 0 }
}

function performanceMetrics(
  nodes: readonly AnalysedNode[],
  learnt: ReadonlyMap<Policy, readonly Learning[]>,
  times: { readonly 'time/sample': number; readonly 'time/train': number; readonly 'time/total': number },
): Record<string, number> {
  let sampled = 0
  for (const { node } of nodes)
    for (const list of node.completions) for (const { tokens } of list) sampled += tokens.length
  const trained = [...learnt.values()].flat().reduce((sum, { tokens }) => sum + tokens, 0)
  const rate = (tokens: number, seconds: number) => (seconds > 0 ? tokens / seconds : 0)
  return {
    'perf/sampled_tokens': sampled,
    'perf/trained_tokens': trained,
    'perf/sampled_tokens_per_second': rate(sampled, times['time/sample']),
    'perf/trained_tokens_per_second': rate(trained, times['time/train']),
    'perf/tokens_per_second': rate(sampled, times['time/total']),
  }
}

interface Progress {
  readonly random: Random
  readonly buffers: readonly (readonly BufferedNode[])[]
  readonly failures: RewardFailures
  readonly config: ResolvedConfig
  readonly metrics: Readonly<Record<string, number>>
  readonly seconds: number
}

function advance(state: TrainerState, analysis: Analysis, progress: Progress): TrainerState {
  const { random, buffers, failures, config, metrics, seconds } = progress
  const step = state.step + 1
  const value = metrics['turn_1/expected_return']
  const collapse =
    config.collapse && value !== undefined
      ? watchForCollapse(state.collapse, value, step, config.collapse).state
      : state.collapse
  const { succeeded, consecutive, total, first } = failures
  return {
    ...state,
    step,
    envStep: analysis.envStep,
    cursor: state.cursor + 1,
    random: [...random.state],
    baselines: analysis.baselines,
    buffers,
    failures: { succeeded, consecutive, total, first },
    collapse: { ...collapse, recent: [...collapse.recent] },
    turns: countTurns(state.turns, analysis.nodes, config),
    seconds: state.seconds + seconds,
  }
}
