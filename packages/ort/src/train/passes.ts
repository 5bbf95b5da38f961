import { NonFiniteError, type CallOptions, type Datum } from '@selfplay/engine'
import { gradientName } from '../autodiff/index.js'
import { headWeightName } from '../models/weights.js'
import type { Tensor } from '../runtime/types.js'
import { microBatches, scatter, type MicroBatch } from './batches.js'
import { lossFeeds, normalisationScales, type GraphLoss } from './losses.js'
import type { ModelCore, TrainingSession } from './model-core.js'
import { CACHED_TOKENS, headChunkCount, maxBatchTokens } from './memory-plan.js'
import { disposeAll, type Companions, type Parameter } from './parameters.js'

/** What a call over all its micro-batches found. */
export interface PassResult {
  readonly loss: number
  /** [datum][t], 0 where not trained. */
  readonly logprobs: Float32Array[]
  readonly metrics: Record<string, number>
  /** Undefined when none were asked for, or nothing is trained. */
  readonly gradients: Companions | undefined
}

export interface PassOptions extends CallOptions {
  readonly gradients: boolean
  /** Bytes of activations that one micro-batch may take. */
  readonly activationBytes: number
}

/**
 * Runs a call's micro-batches over the given parameters, side by side in the core's lanes. Gradients come in buffers of
 * the core's, owned by the caller. Sums are taken in the order of the batches and lanes: the result depends on their
 * number, not on which is done first.
 *
 * @throws NonFiniteError naming the datum whose loss is NaN or infinite; no buffer is kept then.
 */
export async function runPasses(
  core: ModelCore,
  parameters: readonly Parameter[],
  data: readonly Datum[],
  loss: GraphLoss,
  options: PassOptions,
): Promise<PassResult> {
  const { lanes } = core
  const maxTokens = maxBatchTokens(core.config, data, laneBytes(core, options))
  const batches = microBatches(data, { maxTokens, lanes })
  const scales = normalisationScales(data, loss.normalise)
  const call: Call = { core, parameters, loss, scales, options, batches: batches.length }
  const outputs: PassOutputs[] = []
  const gradients = await runLanes(call, batches, (batch, found) => (outputs[batch] = found))
  const logprobs = data.map(({ tokens }) => new Float32Array(tokens.length))
  const sums = { loss: 0, entropy: 0, tokens: 0, logprob: 0 }
  outputs.forEach((found, i) => {
    scatter(batches[i]!, found.logprobs, logprobs)
    for (const value of found.losses) sums.loss += value
    for (const value of found.entropy) sums.entropy += value
    for (const value of found.logprobs) sums.logprob += value
    sums.tokens += found.losses.length
  })
  const mean = (sum: number) => (sums.tokens === 0 ? 0 : sum / sums.tokens)
  const metrics = { tokens: sums.tokens, entropy: mean(sums.entropy), logprob: mean(sums.logprob) }
  return { loss: sums.loss, logprobs, metrics, gradients }
}

/**
 * Compiles what the first call with gradients of a loss will run, where that is the same for micro-batches of all sizes; where calls
 * may run side by side, what one of several micro-batches runs.
 */
export async function preparePasses(
  core: ModelCore,
  loss: GraphLoss,
  options: Pick<PassOptions, 'activationBytes'>,
): Promise<void> {
  if (headChunkCount(core.config, CACHED_TOKENS, laneBytes(core, options)) > 1) return
  await sessionFor({ core, loss, options: { ...options, gradients: true }, batches: core.lanes }, CACHED_TOKENS)
}

/** What all micro-batches of a call have in common. */
interface Call {
  readonly core: ModelCore
  readonly parameters: readonly Parameter[]
  readonly loss: GraphLoss
  readonly scales: Float64Array
  readonly options: PassOptions
  /** How many there are. */
  readonly batches: number
}

/** Bytes of activations that each of the micro-batches side by side may take. */
const laneBytes = ({ lanes }: ModelCore, { activationBytes }: Pick<PassOptions, 'activationBytes'>): number =>
  activationBytes / lanes

/** Whether micro-batches run side by side, on sessions of fewer threads. */
const inLane = ({ core, batches }: Pick<Call, 'core' | 'batches'>): boolean => core.lanes > 1 && batches > 1

/** The session of a micro-batch with n trained positions. */
function sessionFor(call: Omit<Call, 'parameters' | 'scales'>, n: number): Promise<TrainingSession> {
  const { core, loss, options } = call
  const chunks = headChunkCount(core.config, n, laneBytes(core, options))
  return core.session(loss, options.gradients, chunks, inLane(call))
}

/** What one micro-batch gave for its n trained positions, [n] each. */
interface PassOutputs {
  readonly logprobs: Float32Array
  readonly entropy: Float32Array
  readonly losses: Float32Array
}

type Found = (batch: number, outputs: PassOutputs) => void

/** Every lane takes each `lanes`-th batch and sums its gradients; their sums are added up at the end. */
async function runLanes(call: Call, batches: readonly MicroBatch[], found: Found): Promise<Companions | undefined> {
  const { core } = call
  const width = inLane(call) ? Math.min(core.lanes, batches.length) : 1
  const stop = { failed: false }
  const settled = await Promise.allSettled(
    Array.from({ length: width }, (_, lane) => runLane(call, batches, { first: lane, step: width }, found, stop)),
  )
  const totals = settled.flatMap((lane) => (lane.status === 'fulfilled' && lane.value ? [lane.value] : []))
  const [total, ...others] = totals
  try {
    for (const lane of settled) if (lane.status === 'rejected') throw lane.reason
    for (const other of others) await core.math.add(total!, other)
  } catch (error) {
    if (total) core.giveGradients(total)
    throw error
  } finally {
    for (const other of others) core.giveGradients(other)
  }
  return total
}

/** One batch after another; after a failure anywhere no further one begins. */
async function runLane(
  call: Call,
  batches: readonly MicroBatch[],
  { first, step }: { readonly first: number; readonly step: number },
  found: Found,
  stop: { failed: boolean },
): Promise<Companions | undefined> {
  const { core, parameters, options } = call
  const scratch = new Map<string, Tensor<'float32'>>()
  let total: Companions | undefined
  let into: Companions | undefined
  try {
    for (let i = first; i < batches.length && !stop.failed; i += step) {
      options.signal?.throwIfAborted()
      if (options.gradients) into ??= core.takeGradients(parameters)
      const outputs = await new Pass(call, batches[i]!).run(into, scratch)
      checkLosses(batches[i]!, outputs.losses)
      found(i, outputs)
      // One buffer serves all batches but the first: of a large model, memory that is touched anew takes longer than the sum.
      if (total && into) await core.math.add(total, into)
      else [total, into] = [into, undefined]
    }
    return total
  } catch (error) {
    stop.failed = true
    if (total) core.giveGradients(total)
    throw error
  } finally {
    if (into) core.giveGradients(into)
    disposeAll(scratch.values())
  }
}

function checkLosses(batch: MicroBatch, losses: Float32Array): void {
  const at = losses.findIndex((value) => !Number.isFinite(value))
  if (at < 0) return
  const row = batch.rowOf[at]!
  const [datum, position] = [batch.datums[row]!, batch.positions[at]! - row * batch.length]
  throw new NonFiniteError(
    `the loss of datum ${datum} is ${losses[at]} at position ${position}: gradients and weights are as they were`,
    { datum, position, got: losses[at] },
  )
}

/** One micro-batch through one compiled graph. */
class Pass {
  readonly #call: Call
  readonly #core: ModelCore
  readonly #parameters: readonly Parameter[]
  readonly #batch: MicroBatch

  constructor(call: Call, batch: MicroBatch) {
    this.#call = call
    this.#core = call.core
    this.#parameters = call.parameters
    this.#batch = batch
  }

  /** Gradients are written into `into` when given; `scratch` holds what a pass needs besides, for the next one. */
  async run(into: Companions | undefined, scratch: Map<string, Tensor<'float32'>>): Promise<PassOutputs> {
    const { signal } = this.#call.options
    const { session, chunks } = await sessionFor(this.#call, this.#batch.positions.length)
    const own: Tensor[] = []
    try {
      const feeds = { ...this.#feeds(own), ...this.#weights(chunks, own) }
      const gradients = into ? this.#gradientOutputs(into, chunks, scratch, own) : {}
      const outputs = { logprobs: null, entropy: null, token_losses: null, ...gradients }
      const found = await session.run(feeds, outputs, signal ? { signal } : {})
      const read = async (name: string) => {
        own.push(found[name]!)
        return (await found[name]!.read()) as Float32Array
      }
      const [logprobs, entropy, losses] = [await read('logprobs'), await read('entropy'), await read('token_losses')]
      if (into && chunks.length > 1) await this.#addHead(into, scratch)
      return { logprobs, entropy, losses }
    } finally {
      disposeAll(own)
    }
  }

  #feeds(own: Tensor[]): Record<string, Tensor> {
    const { runtime } = this.#core
    const batch = this.#batch
    const [rows, n] = [batch.datums.length, batch.positions.length]
    const feeds: Record<string, Tensor> = {
      tokens: runtime.tensor('int32', batch.tokens, [rows, batch.length]),
      rows: runtime.tensor('int32', batch.positions, [n]),
      targets: runtime.tensor('int32', batch.targets, [n]),
      inverse_temperature: runtime.tensor('float32', batch.inverseTemperature, [n]),
    }
    for (const [name, values] of Object.entries(lossFeeds(this.#call.loss, batch, this.#call.scales))) {
      const dims = name === 'rowMean' ? [rows, n] : name === 'rowOf' ? [n, rows] : [n]
      feeds[name] = runtime.tensor('float32', values, dims)
    }
    const { rope_cos, rope_sin, ...masks } = this.#core.lengthFeeds(batch.length)
    own.push(...Object.values(feeds), ...Object.values(masks))
    return { ...feeds, rope_cos: rope_cos!, rope_sin: rope_sin!, ...masks }
  }

  /** Trained weights as inputs, the head in chunks where the graph wants it so. */
  #weights(chunks: TrainingSession['chunks'], own: Tensor[]): Record<string, Tensor> {
    const head = headWeightName(this.#core.config)
    const feeds: Record<string, Tensor> = {}
    for (const { name, weight } of this.#parameters) {
      if (name !== head || chunks.length === 1) feeds[name] = weight
      else {
        if (this.#core.tiedAndTrained) feeds[name] = weight
        for (const chunk of chunks) feeds[chunk.name] = this.#rows(weight, chunk, own)
      }
    }
    return feeds
  }

  /** A chunk of the head writes into its rows of the gradient; where the embedding does too, into rows of its own. */
  #gradientOutputs(
    into: Companions,
    chunks: TrainingSession['chunks'],
    scratch: Map<string, Tensor<'float32'>>,
    own: Tensor[],
  ): Record<string, Tensor> {
    const head = headWeightName(this.#core.config)
    const outputs: Record<string, Tensor> = {}
    for (const [name, gradient] of into) {
      if (name !== head || chunks.length === 1) {
        outputs[gradientName(name)] = gradient
        continue
      }
      let target = gradient
      if (this.#core.tiedAndTrained) {
        outputs[gradientName(name)] = gradient
        target = scratch.get(name) ?? this.#core.runtime.allocate('float32', gradient.dims)
        scratch.set(name, target)
      }
      for (const chunk of chunks) outputs[gradientName(chunk.name)] = this.#rows(target, chunk, own)
    }
    return outputs
  }

  #rows(matrix: Tensor<'float32'>, { start, end }: { start: number; end: number }, own: Tensor[]): Tensor<'float32'> {
    const width = matrix.dims[1]!
    const view = this.#core.runtime.view(matrix, start * width, [end - start, width])
    own.push(view)
    return view
  }

  async #addHead(into: Companions, scratch: Companions): Promise<void> {
    for (const [name, tensor] of scratch) {
      await this.#core.math.add(new Map([[name, into.get(name)!]]), new Map([[name, tensor]]))
    }
  }
}
