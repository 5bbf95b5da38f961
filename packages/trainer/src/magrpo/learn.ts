import {
  InvalidInputError,
  NonFiniteError,
  type Loss,
  type OptimStepOptions,
  type TrainingClient,
} from '@selfplay/engine'
import { SamplerGapError } from '../errors.js'
import { holdRefusedGradients } from '../refused-gradients.js'
import type { Sample } from './datums.js'

export interface LearnOptions {
  readonly loss: Loss
  readonly optim: OptimStepOptions
  /** Null: any gap is accepted. */
  readonly maxSamplerGap: number | null
  /** Updates finished before this one, for messages. */
  readonly step: number
  readonly signal: AbortSignal
  /** Adds other gradients of the same weights, after the samples' own. */
  readonly beforeStep?: () => Promise<void>
  /** Called just before the weights change. */
  readonly onStep?: () => void
}

/** What one agent's samples looked like to the trainer. */
export interface AgentLearning {
  tokens: number
  /** Sum and largest of |trainer - sampler log-prob| over tokens sampled by these very weights, and how many there were. */
  gapSum: number
  gapMax: number
  gapTokens: number
  /** Largest probability ratio trainer / sampler. */
  ratioMax: number
}

export interface Learning {
  readonly loss: number
  readonly gradNorm: number
  /** Nats per trained token, where the core tells. */
  readonly entropy: number | undefined
  readonly tokens: number
  readonly agents: ReadonlyMap<number, AgentLearning>
}

/**
 * One optimiser step of one policy on some samples.
 *
 * Once gradients are there the step is taken whatever the signal says: none are left behind for a later step.
 * @throws NonFiniteError naming the update, agent, row, turn and completion; SamplerGapError when sampler and trainer disagree.
 *   This step has not changed the weights then.
 */
export async function learn(
  client: TrainingClient,
  samples: readonly Sample[],
  { loss, optim, maxSamplerGap, step, signal, beforeStep, onStep }: LearnOptions,
): Promise<Learning> {
  const result = await client
    .forwardBackward(
      samples.map(({ datum }) => datum),
      loss,
      { signal },
    )
    .catch((error: unknown) => {
      throw nameSample(error, samples, step)
    })
  const agents = compare(samples, result.logprobs, client.step)
  if (maxSamplerGap !== null) checkGap(client, agents, maxSamplerGap, step)
  try {
    await beforeStep?.()
  } catch (error) {
    holdRefusedGradients(client)
    throw error
  }
  onStep?.()
  const { gradNorm } = await client.optimStep(optim).catch((error: unknown) => {
    if (!(error instanceof NonFiniteError)) throw error
    const who = [...agents.keys()].join(', ')
    throw new NonFiniteError(`update ${step + 1}, agent ${who}: ${error.message}`, {
      ...error.details,
      step: step + 1,
      agents: [...agents.keys()],
    })
  })
  const tokens = [...agents.values()].reduce((sum, agent) => sum + agent.tokens, 0)
  return { loss: result.loss, gradNorm, entropy: result.metrics['entropy'], tokens, agents }
}

/** The error with the place of the datum that it is about; any other as it is. */
function nameSample(error: unknown, samples: readonly Sample[], step: number): unknown {
  if (!(error instanceof NonFiniteError || error instanceof InvalidInputError)) return error
  const index = error.details['datum']
  const sample = typeof index === 'number' ? samples[index] : undefined
  if (!sample) return error
  const { agent, rowIndex, turn, path, completion } = sample
  const Named = error instanceof NonFiniteError ? NonFiniteError : InvalidInputError
  return new Named(
    `update ${step + 1}, agent ${agent}, row ${rowIndex}, turn ${turn}, completion ${completion}: ${error.message}`,
    { ...error.details, step: step + 1, agent, row: rowIndex, turn, path: [...path], sample: completion },
  )
}

function compare(
  samples: readonly Sample[],
  logprobs: readonly Float32Array[],
  version: number,
): Map<number, AgentLearning> {
  const agents = new Map<number, AgentLearning>()
  samples.forEach(({ agent, datum, policyVersion }, d) => {
    const found = agents.get(agent) ?? { tokens: 0, gapSum: 0, gapMax: 0, gapTokens: 0, ratioMax: 0 }
    agents.set(agent, found)
    datum.weights!.forEach((weight, t) => {
      if (weight === 0) return
      const difference = logprobs[d]![t]! - datum.samplerLogprobs![t]!
      found.tokens++
      found.ratioMax = Math.max(found.ratioMax, Math.exp(difference))
      if (policyVersion !== version) return
      found.gapTokens++
      found.gapSum += Math.abs(difference)
      found.gapMax = Math.max(found.gapMax, Math.abs(difference))
    })
  })
  return agents
}

function checkGap(
  client: TrainingClient,
  agents: ReadonlyMap<number, AgentLearning>,
  limit: number,
  step: number,
): void {
  for (const [agent, { gapSum, gapMax, gapTokens }] of agents) {
    const gap = gapTokens === 0 ? 0 : gapSum / gapTokens
    if (gap <= limit) continue
    holdRefusedGradients(client)
    throw new SamplerGapError(
      `update ${step + 1}, agent ${agent}: the log-probs of sampler and trainer differ by ${gap.toPrecision(3)} on average ` +
        `(largest ${gapMax.toPrecision(3)}), more than maxSamplerGap ${limit}: something changed the weights after ` +
        'sampling, the two compute differently, or the steps before were so large that numbers have lost their digits (lower the ' +
        'learning rate then). The step was refused',
      { step: step + 1, agent, gap, gapMax, limit },
    )
  }
}
