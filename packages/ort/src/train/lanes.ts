import type { CallOptions, Datum } from '@selfplay/engine'
import type { Tensor } from '../runtime/types.js'
import { microBatches, type MicroBatch } from './batches.js'
import { maxBatchTokens } from './memory-plan.js'
import type { ModelCore } from './model-core.js'
import { disposeAll } from './parameters.js'

/** Memory of the micro-batches of a call. */
export interface BatchMemory {
  /** Bytes of activations that one micro-batch may take, or several side by side together. */
  readonly activationBytes: number
}

/** Bytes of activations that each of the micro-batches side by side may take. */
export const laneBytes = ({ lanes }: ModelCore, { activationBytes }: BatchMemory): number => activationBytes / lanes

/** Cuts a call into the micro-batches that {@link runLanes} runs. */
export function cutForLanes(core: ModelCore, data: readonly Datum[], memory: BatchMemory): MicroBatch[] {
  const maxTokens = maxBatchTokens(core.config, data, laneBytes(core, memory))
  return microBatches(data, { maxTokens, lanes: core.lanes })
}

/** Whether so many micro-batches run side by side, on sessions of fewer threads. */
export const sideBySide = ({ lanes }: ModelCore, batches: number): boolean => lanes > 1 && batches > 1

/** Tensors that a lane keeps from one micro-batch to the next, by name. */
export type Scratch = Map<string, Tensor<'float32'>>

/** Where the gradients of a call go. */
export interface GradientBuffers<G> {
  /** A buffer for all that a micro-batch writes; the caller gives it back. */
  take(): G | Promise<G>
  give(gradients: G): void
  add(into: G, from: G): Promise<void>
}

export interface LaneOptions<G> extends CallOptions {
  /** How many micro-batches there are. */
  readonly batches: number
  /** Undefined: no gradients are asked for. */
  readonly buffers: GradientBuffers<G> | undefined
}

/** Runs one micro-batch of a call, with its gradients into the buffer. */
type RunBatch<G> = (batch: number, into: G | undefined, scratch: Scratch) => Promise<void>

/**
 * Runs micro-batches side by side in the core's lanes: each lane takes each `lanes`-th and sums its gradients; their sums are added up
 * at the end. Sums are taken in the order of the batches and lanes: the result depends on their number, not on which is done first.
 *
 * @returns the sum, owned by the caller.
 * @throws what the first batch that fails threw: those before it are still run, no later one begins, and no buffer is kept.
 */
export async function runLanes<G>(
  { lanes }: ModelCore,
  options: LaneOptions<G>,
  run: RunBatch<G>,
): Promise<G | undefined> {
  const { batches, buffers } = options
  const step = Math.min(lanes, batches)
  const failure: Failure = { batch: Infinity, reason: undefined }
  const settled = await Promise.allSettled(
    Array.from({ length: step }, (_, first) => runLane({ first, step }, options, run, failure)),
  )
  const totals = settled.flatMap((lane) => (lane.status === 'fulfilled' && lane.value ? [lane.value] : []))
  const [total, ...others] = totals
  try {
    if (failure.batch < Infinity) throw failure.reason
    for (const other of others) await buffers!.add(total!, other)
  } catch (error) {
    if (total) buffers!.give(total)
    throw error
  } finally {
    for (const other of others) buffers!.give(other)
  }
  return total
}

/** The first batch of a call, in its order, that failed so far. */
interface Failure {
  batch: number
  reason: unknown
}

/** One batch after another, up to the first that failed in any lane. */
async function runLane<G>(
  { first, step }: { readonly first: number; readonly step: number },
  { batches, buffers, signal }: LaneOptions<G>,
  run: RunBatch<G>,
  failure: Failure,
): Promise<G | undefined> {
  const scratch: Scratch = new Map()
  let total: G | undefined
  let into: G | undefined
  let i = first
  try {
    for (; i < batches && i < failure.batch; i += step) {
      signal?.throwIfAborted()
      into ??= await buffers?.take()
      await run(i, into, scratch)
      // One buffer serves all batches but the first: of a large model, memory that is touched anew takes longer than the sum.
      if (total && into) await buffers!.add(total, into)
      else [total, into] = [into, undefined]
    }
    return total
  } catch (error) {
    if (i < failure.batch) Object.assign(failure, { batch: i, reason: error })
    if (total) buffers!.give(total)
    throw error
  } finally {
    if (into) buffers!.give(into)
    disposeAll(scratch.values())
  }
}
