import { InvalidInputError } from '@selfplay/engine'
import { checkKeys } from '../runtime/nearest.js'
import type { ModelConfig } from './config.js'
import { LINEAR_NAMES, linearLayers } from './weights.js'

/** A low-rank adapter (Hu et al. 2021): W + alpha / rank * B A on every target layer. */
export interface LoraOptions {
  /**
   * Inner size of the update. At most the largest min(in, out) of the target layers: no update of theirs has a higher rank. (PEFT
   * takes more, and trains numbers that add nothing; an adapter that is loaded from a folder keeps its rank.)
   */
  readonly rank: number
  /** The update is scaled by alpha / rank. */
  readonly alpha: number
  /** Names of linear layers, as PEFT's `target_modules` spells them. */
  readonly targets: readonly string[]
}

/** Rank 16, alpha 32, all linear layers of the blocks. */
export const LORA_DEFAULTS: LoraOptions = { rank: 16, alpha: 32, targets: LINEAR_NAMES }

/** @throws InvalidInputError naming the option, what was expected and what came. */
export function checkLora(options: Partial<LoraOptions>): LoraOptions {
  checkKeys('lora', options, Object.keys(LORA_DEFAULTS))
  const { rank = LORA_DEFAULTS.rank, alpha = LORA_DEFAULTS.alpha, targets = LORA_DEFAULTS.targets } = options
  if (!Number.isSafeInteger(rank) || rank < 1) {
    throw new InvalidInputError(`lora.rank must be a whole number >= 1, got ${rank}`, { got: rank })
  }
  if (!(Number.isFinite(alpha) && alpha > 0)) {
    throw new InvalidInputError(`lora.alpha must be a finite number > 0, got ${alpha}`, { got: alpha })
  }
  const known: readonly string[] = LINEAR_NAMES
  const unknown = targets.find((target) => !known.includes(target))
  if (unknown !== undefined || targets.length === 0) {
    throw new InvalidInputError(
      `lora.targets must name at least one of ${known.join(', ')}; got ${unknown ?? 'an empty list'}`,
      { got: targets },
    )
  }
  return { rank, alpha, targets }
}

/** @throws InvalidInputError when the rank is higher than that of any update of the model's target layers. */
export function checkRank(config: ModelConfig, { rank, targets }: LoraOptions): void {
  const limit = Math.max(
    ...targetLayers(config, targets).map(({ inFeatures, outFeatures }) => Math.min(inFeatures, outFeatures)),
  )
  if (rank <= limit) return
  throw new InvalidInputError(
    `lora.rank must be at most ${limit}, since no update of ${targets.join(', ')} of this model has a higher rank; got ${rank}`,
    { got: rank, limit },
  )
}

/** Names of the two matrices of a layer's adapter, as PEFT has them without its `base_model.model.` prefix. */
export const loraNames = (layer: string) => ({ a: `${layer}.lora_A.weight`, b: `${layer}.lora_B.weight` })

/** Name and shape of every matrix of an adapter, in the order of the model. */
export function loraWeights(config: ModelConfig, { rank, targets }: LoraOptions) {
  return targetLayers(config, targets).flatMap(({ name, inFeatures, outFeatures }) => [
    { name: loraNames(name).a, shape: [rank, inFeatures] },
    { name: loraNames(name).b, shape: [outFeatures, rank] },
  ])
}

const targetLayers = (config: ModelConfig, targets: readonly string[]) =>
  linearLayers(config).filter(({ name }) => targets.includes(name.split('.').at(-1)!))
