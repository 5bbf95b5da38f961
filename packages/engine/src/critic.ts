import { InvalidInputError } from './errors.js'
import type { CallOptions } from './sampling.js'
import type { ExportOptions, ModelInfo, OptimStepOptions, OptimStepResult, TrainingClient } from './training.js'

/**
 * How values are compared with their targets. With V the values, y the targets and c the weights of N sequences, the loss is
 * coef / N * sum of c * (V - y)^2.
 */
export interface ValueLoss {
  /** Factor on the whole loss. Default 1. */
  readonly coef?: number
  /** Weight of each sequence, float32 [N], >= 0. Default 1 everywhere. */
  readonly weights?: Float32Array
  /**
   * PPO's clipped value loss: each squared error becomes max((V - y)^2, (old + clip(V - old, -range, range) - y)^2).
   * Default: off.
   */
  readonly clip?: {
    /** Must be > 0. */
    readonly range: number
    /** The values from before the update, float32 [N]. */
    readonly oldValues: Float32Array
  }
}

export interface ValueResult {
  readonly loss: number
  /** float32 [N], under the weights before the step. */
  readonly values: Float32Array
}

/**
 * A critic: a decoder with a value head, Linear-Tanh-Linear on the hidden state of a sequence's last token, one number per
 * sequence. Calls on one client run one after another, in call order.
 */
export interface CriticClient {
  readonly info: ModelInfo
  /** Number of optimiser steps so far. */
  readonly step: number
  /**
   * The value of each sequence of ids, float32 [N].
   * @throws InvalidInputError for an empty list, an empty or too long sequence, or ids outside the vocabulary.
   */
  values(sequences: readonly Int32Array[], options?: CallOptions): Promise<Float32Array>
  /**
   * Adds the gradients of the value loss to the accumulated ones. An aborted or failed call leaves those as they were.
   *
   * @param targets float32 [N].
   * @throws NonFiniteError naming the sequence whose loss is NaN or infinite (`details.sequence`); InvalidInputError.
   */
  forwardBackwardValues(
    sequences: readonly Int32Array[],
    targets: Float32Array,
    loss?: ValueLoss,
    options?: CallOptions,
  ): Promise<ValueResult>
  /** As of {@link TrainingClient}: all of the critic's weights, head included, are one set with one gradient norm. */
  optimStep(options: OptimStepOptions, call?: CallOptions): Promise<OptimStepResult>
  /** Weights, head, optimiser state and step count to a folder, whole or not at all; replaces what {@link TrainingClient} does. */
  saveState(directory: string, options?: CallOptions): Promise<void>
  /** What `saveState` wrote. @throws CheckpointError when anything is missing, damaged or of another model: nothing changes. */
  loadState(directory: string, options?: CallOptions): Promise<void>
  /** A model folder with the head beside it, from which a critic can be loaded again; whole or not at all, and replaces what `saveState` does. */
  exportModel(directory: string, options?: CallOptions & ExportOptions): Promise<void>
  dispose(): Promise<void>
}

/** A policy with a value head on its own hidden states: both train the same weights, with one optimiser step for both. */
export type ActorCriticClient = TrainingClient & CriticClient

export const isCritic = (client: object): client is CriticClient => 'forwardBackwardValues' in client

/** What values are asked of. */
export interface SequenceLimits {
  readonly vocabSize: number
  readonly contextLength: number
}

/**
 * Refuses sequences, targets and options that no critic can work with.
 *
 * @param targets undefined when only values are asked for.
 * @throws InvalidInputError naming the sequence, what was expected and what came.
 */
export function checkValueInputs(
  sequences: readonly Int32Array[],
  targets: Float32Array | undefined,
  { coef = 1, weights, clip }: ValueLoss,
  limits: SequenceLimits,
): void {
  if (sequences.length === 0) throw new InvalidInputError('expected at least one sequence, got an empty list')
  sequences.forEach((ids, index) => checkSequence(ids, index, limits))
  if (!(Number.isFinite(coef) && coef > 0)) {
    throw new InvalidInputError(`coef must be a finite number > 0, got ${coef}`, { got: coef })
  }
  if (clip && !(clip.range > 0)) {
    throw new InvalidInputError(`clip.range must be > 0, got ${clip.range}`, { got: clip.range })
  }
  const lists = { targets, weights, 'clip.oldValues': clip?.oldValues }
  for (const [name, list] of Object.entries(lists)) {
    if (!list) continue
    if (list.length !== sequences.length) {
      throw new InvalidInputError(`${name} has length ${list.length}, expected ${sequences.length}, one per sequence`, {
        field: name,
        expected: sequences.length,
        got: list.length,
      })
    }
    const bad = list.findIndex((value) => !Number.isFinite(value) || (name === 'weights' && value < 0))
    if (bad >= 0) {
      throw new InvalidInputError(
        `${name}[${bad}] is ${list[bad]}, expected a finite number${name === 'weights' ? ' >= 0' : ''}`,
        { field: name, sequence: bad },
      )
    }
  }
}

function checkSequence(ids: Int32Array, index: number, { vocabSize, contextLength }: SequenceLimits): void {
  if (ids.length === 0) {
    throw new InvalidInputError(`sequence ${index} is empty: expected at least one id`, { sequence: index })
  }
  if (ids.length > contextLength) {
    throw new InvalidInputError(
      `sequence ${index} has ${ids.length} ids, but the model's context is ${contextLength}: shorten it`,
      { sequence: index, length: ids.length, contextLength },
    )
  }
  const at = ids.findIndex((id) => id < 0 || id >= vocabSize)
  if (at < 0) return
  throw new InvalidInputError(
    `sequence ${index}: id ${ids[at]} at position ${at} is outside the vocabulary of ${vocabSize}`,
    { sequence: index, position: at, got: ids[at], vocabSize },
  )
}
