import { modelWeights } from '@selfplay/ort'
import { describe, expect, it } from 'vitest'
import { decodeFloor, forwardFlops, matrixParameters, trainingFlops } from './flops.js'
import { HALF_BILLION, HIDDEN_256, HIDDEN_64, modelConfig, weightBytes, WIDE_VOCABULARY } from './models.js'

const config = modelConfig(HIDDEN_256)

describe('useful operations', () => {
  it('count every matrix of the model once, the tied head among them', () => {
    const matrices = modelWeights(config).filter(({ shape }) => shape.length === 2)
    const numbers = matrices.reduce((sum, { shape }) => sum + shape[0]! * shape[1]!, 0)
    expect(matrixParameters(config)).toBe(numbers)
  })

  it('add up token by token: token t meets t + 1 tokens', () => {
    const [rows, length] = [3, 7]
    let expected = 0
    for (let t = 0; t < length; t++) {
      const pairs = config.numLayers * config.numHeads * (t + 1)
      expected += rows * (2 * matrixParameters(config) + pairs * (2 * config.headDim + 2 * config.headDim))
    }
    expect(forwardFlops(config, rows, length)).toBe(expected)
    expect(trainingFlops(config, rows, length)).toBe(3 * expected)
  })

  it('bound a decoding step by bytes when there is one row, by operations when there are many', () => {
    const [slowMemory, slowProducts] = [
      { gemm: Infinity, bandwidth: 1e9 },
      { gemm: 1e9, bandwidth: Infinity },
    ]
    expect(decodeFloor(config, 1, 0, slowMemory)).toBe((4 * matrixParameters(config)) / 1e9)
    expect(decodeFloor(config, 8, 0, slowProducts)).toBe((16 * matrixParameters(config)) / 1e9)
    expect(decodeFloor(config, 8, 0, { gemm: 1e9, bandwidth: 1e9 })).toBe(decodeFloor(config, 8, 0, slowProducts))
  })
})

describe('the shapes', () => {
  it('have the sizes that their names say', () => {
    expect(weightBytes(HALF_BILLION) / 4).toBe(494_032_768) // Qwen2.5-0.5B
    expect(weightBytes(HIDDEN_256) / 4).toBeGreaterThan(5e6)
    expect(weightBytes(HIDDEN_64) / 4).toBeLessThan(4e5)
    expect((weightBytes(WIDE_VOCABULARY) - weightBytes(HIDDEN_64)) / 4).toBe((151_936 - 4096) * 64)
  })
})
