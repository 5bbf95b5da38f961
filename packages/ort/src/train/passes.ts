import { NonFiniteError, type CallOptions, type Datum } from '@selfplay/engine'
import { gradientName } from '../autodiff/index.js'
import { TRAINING_TOKENS } from '../models/execution-plan.js'
import { headWeightName } from '../models/weights.js'
import type { Tensor } from '../runtime/types.js'
import { nonFiniteAt, scatter, type MicroBatch } from './batches.js'
import {
  cutForLanes,
  laneBytes,
  runLanes,
  sideBySide,
  type BatchMemory,
  type GradientBuffers,
  type Scratch,
} from './lanes.js'
import { lossFeeds, normalisationScales, type GraphLoss } from './losses.js'
import type { ModelCore, TrainingSession } from './model-core.js'
import { headChunkCount } from './memory-plan.js'
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

export interface PassOptions extends CallOptions, BatchMemory {
  readonly gradients: boolean
}

/**
 * Runs a call's micro-batches over the given parameters, as {@link runLanes} does. Gradients come in buffers of the core's,
 * owned by the caller.
 *
 * @throws NonFiniteError naming the datum whose loss is NaN or infinite (of several always the same: the first of the first
 *   micro-batch, and these go by length); no buffer is kept then.
 */
export async function runPasses(
  core: ModelCore,
  parameters: readonly Parameter[],
  data: readonly Datum[],
  loss: GraphLoss,
  options: PassOptions,
): Promise<PassResult> {
  const batches = cutForLanes(core, data, options)
  const scales = normalisationScales(data, loss.normalise)
  const call: Call = { core, parameters, loss, scales, options, batches: batches.length }
  const buffers: GradientBuffers<Companions> = {
    take: () => core.takeGradients(parameters),
    give: (all) => core.giveGradients(all),
    add: (into, from) => core.math.add(into, from),
  }
  const outputs: PassOutputs[] = []
  const lanes = { ...options, batches: batches.length, buffers: options.gradients ? buffers : undefined }
  const gradients = await runLanes(core, lanes, async (i, into, scratch) => {
    outputs[i] = await new Pass(call, batches[i]!).run(into, scratch)
    checkLosses(batches[i]!, outputs[i].losses)
  })
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
export async function preparePasses(core: ModelCore, loss: GraphLoss, options: BatchMemory): Promise<void> {
  if (headChunkCount(core.config, TRAINING_TOKENS, laneBytes(core, options)) > 1) return
  await sessionFor({ core, loss, options: { ...options, gradients: true }, batches: core.lanes }, TRAINING_TOKENS)
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

/** The session of a micro-batch with n trained positions. */
function sessionFor(call: Omit<Call, 'parameters' | 'scales'>, n: number): Promise<TrainingSession> {
  const { core, loss, options, batches } = call
  const chunks = headChunkCount(core.config, n, laneBytes(core, options))
  return core.session(loss, options.gradients, chunks, sideBySide(core, batches))
}

/** What one micro-batch gave for its n trained positions, [n] each. */
interface PassOutputs {
  readonly logprobs: Float32Array
  readonly entropy: Float32Array
  readonly losses: Float32Array
}

function checkLosses(batch: MicroBatch, losses: Float32Array): void {
  const at = nonFiniteAt(batch, losses)
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
  async run(into: Companions | undefined, scratch: Scratch): Promise<PassOutputs> {
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
    scratch: Scratch,
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
