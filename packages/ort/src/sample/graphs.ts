import { graph } from '../graph/index.js'
import type { Graph, SerialisedModel, Value, WeightFile } from '../graph/index.js'
import type { ModelConfig } from '../models/config.js'
import { cacheOutputs, decodeStep, prefill } from '../models/decode.js'
import { decoder, decoderInputs } from '../models/decoder.js'
import { headInputs, logprobHead } from '../models/head.js'
import { Layers } from '../models/layers.js'
import type { DecoderWeights } from '../models/layers.js'
import { FINAL_NORM, headWeightName } from '../models/weights.js'
import type { Tensor } from '../runtime/index.js'
import { loraNames } from '../models/lora.js'
import type { LoraOptions } from '../models/lora.js'
import { drawFiltered, drawGreedy, drawPlain } from './tail.js'

/** A low-rank adapter whose matrices live in tensors: a change of them is seen at the next step. */
export interface SamplerAdapter {
  readonly options: LoraOptions
  /** By the names of `loraNames`. */
  readonly tensors: ReadonlyMap<string, Tensor<'float32'>>
}

/** Where the graphs of a sampler take their weights from. */
export interface SamplerWeights {
  /** By Hugging Face name: memory, or a part of a file (float32) that is mapped. */
  readonly base: ReadonlyMap<string, Tensor<'float32'> | WeightFile>
  readonly adapter?: SamplerAdapter | undefined
  /** Whether the base weights are inputs of the graphs and no constants of the session. Default false. */
  readonly fed?: boolean
}

/** Weights are constants of the session, unless they are fed; the matrices of an adapter are inputs. */
function decoderWeights(g: Graph, { base, adapter, fed = false }: SamplerWeights): DecoderWeights {
  const weight: DecoderWeights['weight'] = ({ name, shape }) => {
    const source = base.get(name)
    if (fed) return g.named(name) ?? g.parameter(name, 'float32', shape)
    return g.named(name) ?? g.weight(name, 'float32', shape, source && 'path' in source ? source : undefined)
  }
  if (!adapter) return { weight }
  const { rank, alpha, targets } = adapter.options
  return {
    weight,
    lora: ({ name, inFeatures, outFeatures }) => {
      if (!targets.includes(name.split('.').at(-1) ?? '')) return undefined
      const names = loraNames(name)
      const matrix = (of: string, shape: readonly number[]) => g.named(of) ?? g.parameter(of, 'float32', shape)
      const [a, b] = [matrix(names.a, [rank, inFeatures]), matrix(names.b, [outFeatures, rank])]
      return { a, b, scale: alpha / rank }
    },
  }
}

/** GroupQueryAttention has float32 kernels there. */
const inference = () => graph({ providers: ['cpu', 'webgpu'] })

/**
 * One token for each of any number of rows, drawn from the whole distribution. Inputs of `decodeStep`, `uniform` [rows, 2] and
 * `inverse_temperature` [rows]; outputs `token` [rows], `probability` [rows], `logits` and the caches.
 */
export function stepGraph(config: ModelConfig, weights: SamplerWeights): SerialisedModel {
  const g = inference()
  const { logits, present } = decodeStep(g, config, decoderWeights(g, weights))
  const uniform = g.input('uniform', 'float32', ['rows', 2])
  const inverseTemperature = g.input('inverse_temperature', 'float32', ['rows'])
  return g.outputs({ ...drawPlain(g, logits, uniform, inverseTemperature), logits, ...cacheOutputs(present) })
}

/** What the caches of a stride's earlier steps are called: to be bound to the same tensors as those of its last. */
export const strideSuffix = (step: number): string => `_after_${step}`

/**
 * So many steps in one run, each fed with what the one before drew: the same numbers as that many runs of `stepGraph`. Its inputs, but
 * `uniform` [rows, steps * 2]; outputs `token` [rows, steps], `probability` [rows, steps] and the caches of each step.
 */
export function strideGraph(config: ModelConfig, weights: SamplerWeights, steps: number): SerialisedModel {
  const g = inference()
  const uniforms = g.split(g.input('uniform', 'float32', ['rows', 2 * steps]), Array<number>(steps).fill(2), {
    axis: 1,
  })
  const inverseTemperature = g.input('inverse_temperature', 'float32', ['rows'])
  const tokens: Value[] = []
  const probabilities: Value[] = []
  const caches: Record<string, Value> = {}
  let step = decodeStep(g, config, decoderWeights(g, weights))
  for (const [n, uniform] of uniforms.entries()) {
    const { token, probability } = drawPlain(g, step.logits, uniform, inverseTemperature)
    tokens.push(g.unsqueeze(token, [1]))
    probabilities.push(g.unsqueeze(probability, [1]))
    const isLast = n === steps - 1
    Object.assign(caches, cacheOutputs(step.present, isLast ? '' : strideSuffix(n)))
    if (!isLast) step = step.next(token)
  }
  return g.outputs({
    token: g.concat(tokens, { axis: 1 }),
    probability: g.concat(probabilities, { axis: 1 }),
    ...caches,
  })
}

/** The caches of prompts: outputs `present_*`. */
export function prefillGraph(config: ModelConfig, weights: SamplerWeights): SerialisedModel {
  const g = inference()
  return g.outputs(cacheOutputs(prefill(g, config, decoderWeights(g, weights)).present))
}

/** Draws the most probable tokens of `logits` [S, V]: outputs `token` and `probability`. */
export function greedyGraph(vocabSize: number, slots: number): SerialisedModel {
  const g = inference()
  return g.outputs({ ...drawGreedy(g, g.input('logits', 'float32', [slots, vocabSize])) })
}

/** Draws from filtered `logits` [S, V]: outputs `token`, `probability`, `kept_mass` and `below`. */
export function filteredGraph(vocabSize: number, slots: number, candidates: number): SerialisedModel {
  const g = inference()
  const draw = drawFiltered(
    g,
    g.input('logits', 'float32', [slots, vocabSize]),
    {
      uniform: g.input('uniform', 'float32', [slots, 2]),
      inverseTemperature: g.input('inverse_temperature', 'float32', [slots]),
      topK: g.input('top_k', 'int32', [slots]),
      topP: g.input('top_p', 'float32', [slots]),
    },
    candidates,
  )
  const { token, probability, keptMass, below } = draw
  return g.outputs({ token, probability, kept_mass: keptMass, below })
}

/** All hidden rows of sequences, after the final norm: output `hidden`, float32 [batch*seq, hidden]. */
export function hiddenGraph(config: ModelConfig, weights: SamplerWeights): SerialisedModel {
  const g = graph()
  const sources = decoderWeights(g, weights)
  const states = decoder(g, config, decoderInputs(g, config), sources)
  return g.outputs({ hidden: new Layers(g, config, sources).norm(states, FINAL_NORM) })
}

/** Log-probs of `targets` [n] after `hidden` [n, hidden] at `inverse_temperature` [n]: output `logprobs` [n]. */
export function scoreGraph(config: ModelConfig, weights: SamplerWeights): SerialisedModel {
  const g = graph()
  const { weight } = decoderWeights(g, weights)
  const head = weight({ name: headWeightName(config), shape: [config.vocabSize, config.hiddenSize] })
  const hidden = g.input('hidden', 'float32', ['n', config.hiddenSize])
  return g.outputs({ logprobs: logprobHead(g, hidden, [head], headInputs(g)).logprobs })
}
