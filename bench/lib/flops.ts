import { linearLayers, type ModelConfig } from '@selfplay/ort'

/** Numbers in the matrices that every token is multiplied with: the linear layers of the blocks and the output head. */
export function matrixParameters(config: ModelConfig): number {
  const blocks = linearLayers(config).reduce((sum, layer) => sum + layer.inFeatures * layer.outFeatures, 0)
  return blocks + config.vocabSize * config.hiddenSize
}

/**
 * Useful floating-point operations of one forward pass over `rows` sequences of `length` tokens, all of them trained.
 *
 * Matrices: 2 per parameter and token. Attention: each token meets itself and what came before it, so length * (length + 1) / 2
 * pairs per row, head and layer, each with 2 * headDim for the score and 2 * headDim for the mix; the half above the diagonal is
 * not useful, and nor is what is computed twice. Norms, activations and the softmax are left out.
 */
export function forwardFlops(config: ModelConfig, rows: number, length: number): number {
  const matrices = 2 * matrixParameters(config) * rows * length
  const pairs = (rows * config.numHeads * config.numLayers * length * (length + 1)) / 2
  return matrices + 4 * config.headDim * pairs
}

/** Forward and backward: each matrix product has two gradients of its own size. */
export const trainingFlops = (config: ModelConfig, rows: number, length: number): number =>
  3 * forwardFlops(config, rows, length)

/** Seconds that a decoding step of `rows` rows at `position` takes at least: its flops, or the bytes it must read in float32. */
export function decodeFloor(
  config: ModelConfig,
  rows: number,
  position: number,
  floors: { readonly gemm: number; readonly bandwidth: number },
): number {
  const { numHeads, numKvHeads, headDim, numLayers } = config
  const flops = rows * (2 * matrixParameters(config) + 4 * numHeads * headDim * numLayers * position)
  const bytes = 4 * (matrixParameters(config) + 2 * numKvHeads * headDim * numLayers * position * rows)
  return Math.max(flops / floors.gemm, bytes / floors.bandwidth)
}
