import { NonFiniteError, type CallOptions, type Datum } from '@selfplay/engine'
import { gradientName } from '../autodiff/index.js'
import { headWeightName } from '../models/weights.js'
import type { Tensor } from '../runtime/types.js'
import { microBatches, scatter, type MicroBatch } from './batches.js'
import { lossFeeds, normalisationScales, type GraphLoss } from './losses.js'
import type { ModelCore, TrainingSession } from './model-core.js'
import { headChunkCount, maxBatchTokens } from './memory-plan.js'
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
 * Runs a call's micro-batches over the given parameters. Gradients come in buffers of the core's, owned by the caller.
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
  const batches = microBatches(data, { maxTokens: maxBatchTokens(core.config, data, options.activationBytes) })
  const scales = normalisationScales(data, loss.normalise)
  const logprobs = data.map(({ tokens }) => new Float32Array(tokens.length))
  const sums = { loss: 0, entropy: 0, tokens: 0, logprob: 0 }
  let total: Companions | undefined
  try {
    for (const batch of batches) {
      options.signal?.throwIfAborted()
      const pass = new Pass(core, parameters, batch, loss, scales)
      const gradients = options.gradients ? core.takeGradients(parameters) : undefined
      try {
        const outputs = await pass.run(gradients, options)
        checkLosses(batch, outputs.losses)
        scatter(batch, outputs.logprobs, logprobs)
        for (const value of outputs.losses) sums.loss += value
        for (const value of outputs.entropy) sums.entropy += value
        for (const value of outputs.logprobs) sums.logprob += value
        sums.tokens += outputs.losses.length
        if (total && gradients) await core.math.add(total, gradients)
      } catch (error) {
        if (gradients) core.giveGradients(gradients)
        throw error
      }
      if (total && gradients) core.giveGradients(gradients)
      total ??= gradients
    }
  } catch (error) {
    if (total) core.giveGradients(total)
    throw error
  }
  const mean = (sum: number) => (sums.tokens === 0 ? 0 : sum / sums.tokens)
  const metrics = { tokens: sums.tokens, entropy: mean(sums.entropy), logprob: mean(sums.logprob) }
  return { loss: sums.loss, logprobs, metrics, gradients: total }
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
  readonly #core: ModelCore
  readonly #parameters: readonly Parameter[]
  readonly #batch: MicroBatch
  readonly #loss: GraphLoss
  readonly #scales: Float64Array

  constructor(
    core: ModelCore,
    parameters: readonly Parameter[],
    batch: MicroBatch,
    loss: GraphLoss,
    scales: Float64Array,
  ) {
    this.#core = core
    this.#parameters = parameters
    this.#batch = batch
    this.#loss = loss
    this.#scales = scales
  }

  /** Per-position outputs, [n] each; gradients are written into `into` when given. */
  async run(into: Companions | undefined, { signal, activationBytes }: PassOptions) {
    const headChunks = headChunkCount(this.#core.config, this.#batch.positions.length, activationBytes)
    const { session, chunks } = await this.#core.session(this.#loss, into !== undefined, headChunks)
    const own: Tensor[] = []
    try {
      const feeds = { ...this.#feeds(own), ...this.#weights(chunks, own) }
      const scratch: Record<string, Tensor> = {}
      const gradients = into ? this.#gradientOutputs(into, chunks, scratch, own) : {}
      const outputs = { logprobs: null, entropy: null, token_losses: null, ...gradients }
      const found = await session.run(feeds, outputs, signal ? { signal } : {})
      const read = async (name: string) => {
        own.push(found[name]!)
        return (await found[name]!.read()) as Float32Array
      }
      const [logprobs, entropy, losses] = [await read('logprobs'), await read('entropy'), await read('token_losses')]
      if (into) await this.#addHead(into, scratch)
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
    for (const [name, values] of Object.entries(lossFeeds(this.#loss, batch, this.#scales))) {
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
    scratch: Record<string, Tensor>,
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
        target = this.#core.runtime.allocate('float32', gradient.dims)
        scratch[name] = target
        own.push(target)
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

  async #addHead(into: Companions, scratch: Record<string, Tensor>): Promise<void> {
    for (const [name, tensor] of Object.entries(scratch)) {
      await this.#core.math.add(new Map([[name, into.get(name)!]]), new Map([[name, tensor as Tensor<'float32'>]]))
    }
  }
}
