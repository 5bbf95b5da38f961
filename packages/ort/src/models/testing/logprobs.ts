import { differentiate, type Gradients } from '../../autodiff/index.js'
import type { Graph, Value } from '../../graph/index.js'
import type { ModelConfig } from '../config.js'
import { decoder, decoderInputs } from '../decoder.js'
import { type Head, headInputs, logprobHead } from '../head.js'
import { type DecoderWeights, Layers } from '../layers.js'
import { FINAL_NORM, headWeightName } from '../weights.js'

/** A decoder and its head, as training puts them together. */
export interface LogprobModel extends Head {
  /** Of sum(dLogprobs * logprobs), with respect to weights. */
  gradients(dLogprobs: Value, withRespectTo: readonly Value[]): Gradients
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
  const head = logprobHead(g, hidden, chunks, headInputs(g))
  return Object.assign(head, {
    gradients(dLogprobs: Value, withRespectTo: readonly Value[]) {
      const back = head.backward(dLogprobs)
      const parts = back.chunks.filter((part) => part !== undefined)
      const seeds = [{ value: hidden, gradient: back.hidden }]
      if (parts.length > 0) seeds.push({ value: matrix, gradient: parts[1] ? g.concat(parts, { axis: 0 }) : parts[0]! })
      return differentiate(seeds, withRespectTo)
    },
  })
}
