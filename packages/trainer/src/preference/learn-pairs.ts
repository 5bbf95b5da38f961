import { NonFiniteError, type Datum, type OptimStepOptions, type TrainingClient } from '@selfplay/engine'
import type { Policy, Seat, Table } from '../magrpo/agents.js'
import { toDatum } from '../magrpo/datums.js'
import { withWeightsLeft } from '../magrpo/weights-left.js'
import { dpoLoss } from './dpo.js'
import type { PreferencePair } from './pairs.js'

export interface LearnPairsOptions {
  readonly beta: number
  readonly optim: (policy: Policy) => OptimStepOptions
  /** Updates finished before this one, for messages. */
  readonly step: number
  readonly signal: AbortSignal
  /** Called before the first weights change. */
  readonly onWeightsChange: () => void
}

/** One agent's sequences of a batch: winner and loser of pair p are datums 2p and 2p + 1. */
interface AgentBatch {
  readonly seat: Seat
  readonly datums: readonly Datum[]
  /** Reference log-prob of each. */
  readonly reference: readonly number[]
}

/** What the trained agents know of a batch, before it changes them. */
interface AgentRatios {
  readonly batch: AgentBatch
  /** log p - log reference of each sequence. */
  readonly gains: readonly number[]
  /** Winner less loser, by pair. */
  readonly own: readonly number[]
}

/**
 * One step of each policy on some pairs. All log-ratios are those from before the update, so that the order of the agents does
 * not matter. Frozen and scripted agents are as their reference: they add nothing.
 *
 * @returns metrics: `loss` (mean over agents), `accuracy` (pairs whose joint log-ratio is positive), `margin` (beta * joint
 *   log-ratio), and per agent the same of its own, the change of its winners' and losers' log-probs, `grad_norm` and
 *   `learning_rate`.
 * @throws NonFiniteError naming the update, agent and pair, and which agents had taken their step by then.
 */
export async function learnPairs(
  table: Table,
  pairs: readonly PreferencePair[],
  options: LearnPairsOptions,
): Promise<Record<string, number>> {
  const trained = table.seats.filter(({ kind }) => kind === 'trained')
  const batches = trained.map((seat) => batchOf(seat, pairs))
  const ratios: AgentRatios[] = []
  for (const batch of batches) {
    const own = await ratiosOf(batch, options.signal).catch((error: unknown) => {
      throw withWeightsLeft(namePair(error, [batch.seat.index], pairs.length, options.step), [])
    })
    ratios.push(own)
  }
  const joint = pairs.map((_, p) => ratios.reduce((sum, { own }) => sum + own[p]!, 0))
  const losses = ratios.map(({ own }) =>
    dpoLoss(
      own,
      own.map((ratio, p) => joint[p]! - ratio),
      options.beta,
    ),
  )
  const metrics: Record<string, number> = {
    loss: mean(losses.map(({ loss }) => loss)),
    accuracy: mean(joint.map((ratio) => (ratio > 0 ? 1 : 0))),
    margin: options.beta * mean(joint),
  }
  const stepped: number[] = []
  for (const policy of table.policies.filter((one) => one.trained)) {
    options.signal.throwIfAborted()
    const weighted = ratios.flatMap(({ batch }, i) =>
      policy.seats.includes(batch.seat.index) ? weigh(batch, losses[i]!.slopes) : [],
    )
    const { gradNorm, learningRate } = await step(policy, weighted, options).catch((error: unknown) => {
      throw withWeightsLeft(namePair(error, policy.seats, pairs.length, options.step), stepped)
    })
    stepped.push(...policy.seats)
    for (const agent of policy.seats) {
      metrics[`agent_${agent}/grad_norm`] = gradNorm
      metrics[`agent_${agent}/learning_rate`] = learningRate
    }
  }
  ratios.forEach(({ batch, gains, own }, i) => {
    const name = `agent_${batch.seat.index}`
    metrics[`${name}/loss`] = losses[i]!.loss
    metrics[`${name}/margin`] = options.beta * mean(own)
    metrics[`${name}/winner_gain`] = mean(gains.filter((_, d) => d % 2 === 0))
    metrics[`${name}/loser_gain`] = mean(gains.filter((_, d) => d % 2 === 1))
  })
  return metrics
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length

function batchOf(seat: Seat, pairs: readonly PreferencePair[]): AgentBatch {
  const sides = pairs.flatMap(({ winner, loser }) => [winner[seat.index]!, loser[seat.index]!])
  return {
    seat,
    datums: sides.map(({ prompt, tokens }) => {
      const {
        advantages: _a,
        samplerLogprobs: _s,
        ...datum
      } = toDatum(prompt, { tokens, logprobs: new Float32Array(tokens.length) }, 0, seat.settings.temperature)
      return datum
    }),
    reference: sides.map(({ referenceLogprob }) => referenceLogprob),
  }
}

async function ratiosOf(batch: AgentBatch, signal: AbortSignal): Promise<AgentRatios> {
  const client = batch.seat.policy!.client as TrainingClient
  const { logprobs } = await client.forward(batch.datums, { name: 'cross_entropy' }, { signal })
  const gains = logprobs.map((row, d) => row.reduce((sum, value) => sum + value, 0) - batch.reference[d]!)
  const own = gains.flatMap((gain, d) => (d % 2 === 0 ? [gain - gains[d + 1]!] : []))
  return { batch, gains, own }
}

/** The loss's derivative by each log-prob as a weight of cross-entropy: d(-w logp) = -w. */
function weigh({ datums }: AgentBatch, slopes: readonly number[]): Datum[] {
  return datums.map((datum, d) => {
    const slope = slopes[d >> 1]! * (d % 2 === 0 ? 1 : -1)
    return { ...datum, weights: datum.weights!.map((weight) => -slope * weight) }
  })
}

async function step(
  policy: Policy,
  weighted: readonly Datum[],
  { optim, signal, onWeightsChange }: LearnPairsOptions,
): Promise<{ readonly gradNorm: number; readonly learningRate: number }> {
  const client = policy.client as TrainingClient
  const options = optim(policy)
  await client.forwardBackward(weighted, { name: 'cross_entropy' }, { signal })
  onWeightsChange()
  const { gradNorm } = await client.optimStep(options)
  return { gradNorm, learningRate: options.learningRate }
}

/** The error with the place of the datum that it is about. @param agents whose pairs were trained on, one after another */
function namePair(error: unknown, agents: readonly number[], pairs: number, step: number): unknown {
  if (!(error instanceof NonFiniteError)) return error
  const index = error.details['datum']
  const pair = typeof index === 'number' ? `, pair ${(index >> 1) % pairs}` : ''
  return new NonFiniteError(`update ${step + 1}, agent ${agents.join(', ')}${pair}: ${error.message}`, {
    ...error.details,
    step: step + 1,
    agents: [...agents],
  })
}
