import { differentiate, type Gradients } from '../../autodiff/index.js'
import type { Graph, Value } from '../../graph/index.js'
import type { ModelConfig } from '../config.js'
import { decoder, decoderInputs } from '../decoder.js'
import { headInputs, trainedHead } from '../head.js'
import { type DecoderWeights, Layers } from '../layers.js'
import { FINAL_NORM, headWeightName } from '../weights.js'

/** A decoder and its head, as training puts them together. */
export interface LogprobModel {
  readonly logprobs: Value
  readonly logSumExp: Value
  /** Of sum(dLogprobs * logprobs), with respect to weights; and the entropy, float32 [n]. */
  backward(
    dLogprobs: Value,
    withRespectTo: readonly Value[],
  ): { readonly gradients: Gradients; readonly entropy: Value }
}

/** Scores `targets` [n] at `rows` [n] of batch*seq, with the head matrix cut into `headChunks` pieces. */
export function logprobModel(g: Graph, config: ModelConfig, weights: DecoderWeights, headChunks: number): LogprobModel {
  const states = decoder(g, config, decoderInputs(g, config), weights, g.input('rows', 'int32', ['n']))
  const hidden = new Layers(g, config, weights).norm(states, FINAL_NORM)
  const { vocabSize, hiddenSize } = config
  const matrix = weights.weight({ name: headWeightName(config), shape: [vocabSize, hiddenSize] })
  const edge = (i: number) => Math.round((i * vocabSize) / headChunks)
  const cut = (_: unknown, i: number) => g.slice(matrix, { axis: 0, start: edge(i), end: edge(i + 1) })
  const chunks = headChunks === 1 ? [matrix] : Array.from({ length: headChunks }, cut)
  const head = trainedHead(g, hidden, chunks, headInputs(g))
  return {
    ...head,
    backward(dLogprobs, withRespectTo) {
      const back = head.backward(dLogprobs)
      const parts = back.chunks.filter((part) => part !== undefined)
      const seeds = [{ value: hidden, gradient: back.hidden }]
      if (parts.length > 0) seeds.push({ value: matrix, gradient: parts[1] ? g.concat(parts, { axis: 0 }) : parts[0]! })
      return { gradients: differentiate(seeds, withRespectTo), entropy: back.entropy }
    },
  }
}
