import { differentiate, type Gradients, type Seed } from '../autodiff/index.js'
import type { Graph, Value } from '../graph/index.js'
import type { ModelConfig } from '../models/config.js'
import { decoder, type DecoderInputs, decoderInputs } from '../models/decoder.js'
import { type HeadGradients, type HeadInputs, headInputs, logprobHead, trainedHead } from '../models/head.js'
import { type DecoderWeights, Layers } from '../models/layers.js'
import { FINAL_NORM, headWeightName } from '../models/weights.js'

export interface LogprobOptions {
  /**
   * Into how many pieces of the vocabulary the head is cut. 1 keeps [n, vocabulary] numbers until the backward pass; more
   * keep one piece at a time and compute the logits twice. Default 1. {@link headChunksFor} chooses by memory.
   */
  readonly headChunks?: number
}

/** What a decoder says of chosen targets. */
interface Scores {
  /** With `rows`: input `rows`, int32 [n], which positions of batch*seq to score. */
  readonly inputs: DecoderInputs & HeadInputs & { readonly rows: Value }
  /** float32 [n] */
  readonly logprobs: Value
}

/** Log-probs of chosen targets under a decoder. */
export interface LogprobModel extends Scores {
  /** Entropy at each scored position, in nats, float32 [n]. */
  readonly entropy: Value
}

/** The same, with their gradient. */
export interface TrainedLogprobModel extends Scores {
  /** The gradient of sum(dLogprobs * logprobs), for dLogprobs float32 [n], with respect to weights of the model. */
  backward(
    dLogprobs: Value,
    withRespectTo: readonly Value[],
  ): {
    readonly gradients: Gradients
    /** Entropy at each scored position, in nats, float32 [n]. */
    readonly entropy: Value
  }
}

/**
 * The graph that training runs: log p(targets[i] | all tokens up to rows[i]) at a temperature, at n positions.
 * The final norm, the last MLP and the head see those positions only.
 */
export function logprobModel(
  g: Graph,
  config: ModelConfig,
  weights: DecoderWeights,
  options: LogprobOptions = {},
): LogprobModel {
  const { inputs, hidden, matrix } = underHead(g, config, weights, options)
  const { logprobs, entropy } = logprobHead(g, hidden, matrix.chunks, inputs)
  return { inputs, logprobs, entropy }
}

/** {@link logprobModel} with a gradient. */
export function trainedLogprobModel(
  g: Graph,
  config: ModelConfig,
  weights: DecoderWeights,
  options: LogprobOptions = {},
): TrainedLogprobModel {
  const { inputs, hidden, matrix } = underHead(g, config, weights, options)
  const head = trainedHead(g, hidden, matrix.chunks, inputs)
  return {
    inputs,
    logprobs: head.logprobs,
    backward(dLogprobs, withRespectTo) {
      const back = head.backward(dLogprobs)
      const gradients = differentiate(headSeeds(g, back, hidden, matrix), withRespectTo)
      return { gradients, entropy: back.entropy }
    },
  }
}

function underHead(g: Graph, config: ModelConfig, weights: DecoderWeights, { headChunks = 1 }: LogprobOptions) {
  const inputs = { ...decoderInputs(g, config), rows: g.input('rows', 'int32', ['n']), ...headInputs(g) }
  const layers = new Layers(g, config, weights)
  const hidden = layers.norm(decoder(g, config, inputs, weights, inputs.rows), FINAL_NORM)
  return { inputs, hidden, matrix: headMatrix(layers, headChunks) }
}

interface HeadMatrix {
  readonly chunks: readonly Value[]
  /** The matrix that the chunks were cut from, where they are not values of their own. */
  readonly whole: Value | undefined
}

function headMatrix(layers: Layers, count: number): HeadMatrix {
  const { g, config, weights } = layers
  const { vocabSize } = config
  const spec = { name: headWeightName(config), shape: [vocabSize, config.hiddenSize] }
  if (count === 1) return { chunks: [weights.weight(spec)], whole: undefined }
  const ranges = headRanges(vocabSize, count)
  const { headRows } = weights
  if (headRows) return { chunks: ranges.map((range) => headRows(spec, range)), whole: undefined }
  const whole = weights.weight(spec)
  return { chunks: ranges.map(({ start, end }) => g.slice(whole, { axis: 0, start, end })), whole }
}

/** Consecutive rows of the head matrix, in `count` pieces of nearly one size. */
export function headRanges(vocabSize: number, count: number): { readonly start: number; readonly end: number }[] {
  const edge = (i: number) => Math.round((i * vocabSize) / count)
  return Array.from({ length: count }, (_, i) => ({ start: edge(i), end: edge(i + 1) }))
}

/** The fewest chunks for which one piece of the logits of n positions takes at most `bytes` . */
export function headChunksFor(config: Pick<ModelConfig, 'vocabSize'>, n: number, bytes: number): number {
  return Math.min(config.vocabSize, Math.max(1, Math.ceil((4 * n * config.vocabSize) / bytes)))
}

function headSeeds(g: Graph, back: HeadGradients, hidden: Value, matrix: HeadMatrix): Seed[] {
  const seeds: Seed[] = [{ value: hidden, gradient: back.hidden }]
  const chunks = back.chunks.filter((gradient) => gradient !== undefined)
  if (matrix.whole && chunks.length > 0) seeds.push({ value: matrix.whole, gradient: g.concat(chunks, { axis: 0 }) })
  if (matrix.whole) return seeds
  matrix.chunks.forEach((value, i) => {
    const gradient = back.chunks[i]
    if (gradient) seeds.push({ value, gradient }) // frozen ones have none
  })
  return seeds
}
