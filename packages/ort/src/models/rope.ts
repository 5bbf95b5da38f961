import type { ModelConfig, RopeConfig } from './config.js'

/**
 * Angle per position of each pair of a head's elements, in radians, double precision [headDim / 2].
 *
 * Su et al. 2021 (RoFormer), section 3.4.2: theta^(-2i / headDim). `linear` divides by the factor (Chen et al. 2023,
 * position interpolation). `llama3` (Llama 3.1 model card and reference code, `apply_scaling`): with wavelength
 * L = 2 pi / f and original context C, frequencies with L < C / high stay, those with L > C / low are divided by the
 * factor, and between them s = (C / L - low) / (high - low) mixes the two: (1 - s) f / factor + s f.
 */
export function ropeFrequencies(rope: RopeConfig, headDim: number): Float64Array {
  return Float64Array.from({ length: headDim / 2 }, (_, i) => scaled(rope, rope.theta ** ((-2 * i) / headDim)))
}

function scaled(rope: RopeConfig, frequency: number): number {
  if (rope.type === 'default') return frequency
  if (rope.type === 'linear') return frequency / rope.factor
  const turns = (rope.originalMaxPositions * frequency) / (2 * Math.PI)
  const { lowFreqFactor: low, highFreqFactor: high } = rope
  const keep = Math.min(1, Math.max(0, (turns - low) / (high - low)))
  return (1 - keep) * (frequency / rope.factor) + keep * frequency
}

/** What the graphs need to rotate queries and keys. */
export interface RopeTables {
  /** Number of positions. */
  readonly positions: number
  /** cos(position * frequency), float32 [positions, headDim / 2]. */
  readonly cos: Float32Array
  /** sin(position * frequency), float32 [positions, headDim / 2]. */
  readonly sin: Float32Array
}

/**
 * Cosines and sines for positions 0 to `positions - 1` (default: the model's context), computed in double and rounded
 * once.
 */
export function ropeTables(
  config: Pick<ModelConfig, 'rope' | 'headDim' | 'maxPositions'>,
  positions: number = config.maxPositions,
): RopeTables {
  const frequencies = ropeFrequencies(config.rope, config.headDim)
  const half = frequencies.length
  const cos = new Float32Array(positions * half)
  const sin = new Float32Array(positions * half)
  for (let position = 0; position < positions; position++) {
    for (let i = 0; i < half; i++) {
      const angle = position * frequencies[i]!
      cos[position * half + i] = Math.cos(angle)
      sin[position * half + i] = Math.sin(angle)
    }
  }
  return { positions, cos, sin }
}
