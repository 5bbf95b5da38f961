import {
  InvalidInputError,
  NonFiniteError,
  type Datum,
  type Loss,
  type OptimStepOptions,
  type TrainingClient,
} from '@selfplay/engine'
import { SamplerGapError } from '../errors.js'
import { holdRefusedGradients } from '../refused-gradients.js'

/** A training sequence with where it came from. */
export interface RLDatum {
  readonly datum: Datum
  /** Place of its group in the batch. */
  readonly group: number
  readonly slot: number
  readonly turns: readonly [first: number, last: number]
  /** Optimiser steps behind the weights that sampled it; null: not told. */
  readonly policyVersion: number | null
}

export interface SubstepOptions {
  readonly loss: Loss
  readonly optim: OptimStepOptions
  /** Most optimiser steps; with fewer sequences there are fewer. */
  readonly numSubsteps: number
  /** Null: any gap is accepted. */
  readonly maxSamplerGap: number | null
  /** Updates finished before this one, for messages. */
  readonly step: number
  readonly signal?: AbortSignal
  /** Called just before the weights change. */
  readonly onStep?: () => void
}

/** What the trainer saw of the data while it learnt. */
export interface Learnt {
  /** [optimiser step]. */
  readonly steps: readonly { readonly loss: number; readonly gradNorm: number }[]
  /** Trainer log-probs, as each sequence was when it was trained on, [sequence]. */
  readonly logprobs: readonly Float32Array[]
  /** Whether a sequence was sampled by the very weights that it was trained with, [sequence]. */
  readonly fresh: readonly boolean[]
}

/** Cuts a list into at most `parts` runs of neighbours of nearly equal length; none is empty. */
export function splitEvenly<T>(items: readonly T[], parts: number): T[][] {
  const count = Math.min(parts, items.length)
  return Array.from({ length: count }, (_, k) =>
    items.slice(Math.floor((k * items.length) / count), Math.floor(((k + 1) * items.length) / count)),
  )
}

/**
 * Trains on the data of one update: each substep is one loss over its part and one optimiser step.
 *
 * @throws NonFiniteError naming update, group, slot and turns; SamplerGapError when sampler and trainer disagree. The weights
 *   are as before the substep.
 */
export async function trainSubsteps(
  client: TrainingClient,
  data: readonly RLDatum[],
  options: SubstepOptions,
): Promise<Learnt> {
  const steps: Learnt['steps'][number][] = []
  const logprobs: Float32Array[] = []
  const fresh: boolean[] = []
  for (const part of splitEvenly(data, options.numSubsteps)) {
    const version = client.step
    const datums = part.map(({ datum }) => datum)
    const call = options.signal ? { signal: options.signal } : {}
    const result = await client.forwardBackward(datums, options.loss, call).catch((error: unknown) => {
      throw nameDatum(error, part, { step: options.step, done: steps.length })
    })
    const freshHere = part.map(({ policyVersion }) => policyVersion === version)
    checkGap(client, part, result.logprobs, freshHere, options)
    options.onStep?.()
    const { gradNorm } = await client.optimStep(options.optim).catch((error: unknown) => {
      throw error instanceof NonFiniteError ? nameStep(error, { step: options.step, done: steps.length }) : error
    })
    steps.push({ loss: result.loss, gradNorm })
    logprobs.push(...result.logprobs)
    fresh.push(...freshHere)
  }
  return { steps, logprobs, fresh }
}

/** Where a refused step stands. */
interface Place {
  /** Updates finished before this one. */
  readonly step: number
  /** Optimiser steps of this update before the refused one. */
  readonly done: number
}

const weightsLeft = ({ done }: Place): string =>
  done === 0 ? 'the weights are unchanged' : `the weights are those after ${done} step(s) of this update`

/** An error about one datum, with the place that it came from. */
function nameDatum(error: unknown, part: readonly RLDatum[], at: Place): unknown {
  if (!(error instanceof NonFiniteError || error instanceof InvalidInputError)) return error
  const index = error.details['datum']
  const found = typeof index === 'number' ? part[index] : undefined
  if (!found) return error
  const { group, slot, turns } = found
  const step = at.step + 1
  const place = `update ${step}, group ${group}, slot ${slot}, turns ${turns.join(' to ')}`
  const details = { ...error.details, step, group, slot, turns: [...turns] }
  const Kind = error instanceof NonFiniteError ? NonFiniteError : InvalidInputError
  return new Kind(`${place}: ${error.message}; ${weightsLeft(at)}`, details)
}

const nameStep = (error: NonFiniteError, at: Place): NonFiniteError =>
  new NonFiniteError(`update ${at.step + 1}: ${error.message}; ${weightsLeft(at)}`, {
    ...error.details,
    step: at.step + 1,
  })

/** |trainer - sampler log-prob| over the trained tokens of fresh sequences. */
export function samplerGap(
  data: readonly RLDatum[],
  logprobs: readonly Float32Array[],
  fresh: readonly boolean[],
): { readonly mean: number; readonly max: number; readonly tokens: number } {
  let sum = 0
  let max = 0
  let tokens = 0
  data.forEach(({ datum }, d) => {
    if (!fresh[d]) return
    datum.weights!.forEach((weight, t) => {
      if (weight === 0) return
      const gap = Math.abs(logprobs[d]![t]! - datum.samplerLogprobs![t]!)
      sum += gap
      max = Math.max(max, gap)
      tokens++
    })
  })
  return { mean: tokens === 0 ? 0 : sum / tokens, max, tokens }
}

function checkGap(
  client: TrainingClient,
  part: readonly RLDatum[],
  logprobs: readonly Float32Array[],
  fresh: readonly boolean[],
  { maxSamplerGap: limit, step }: SubstepOptions,
): void {
  if (limit === null) return
  const { mean, max } = samplerGap(part, logprobs, fresh)
  if (mean <= limit) return
  holdRefusedGradients(client)
  throw new SamplerGapError(
    `update ${step + 1}: the log-probs of sampler and trainer differ by ${mean.toPrecision(3)} on average ` +
      `(largest ${max.toPrecision(3)}), more than maxSamplerGap ${limit}; the step was refused and the weights are unchanged. ` +
      'Something changed the weights after sampling, the two compute differently, or the steps before were so large that numbers ' +
      'have lost their digits (lower the learning rate then)',
    { step: step + 1, gap: mean, gapMax: max, limit },
  )
}
