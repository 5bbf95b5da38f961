import { differentiate, gradientName } from '../autodiff/index.js'
import { graph, type Graph, type SerialisedModel, type Value, type WeightFile } from '../graph/index.js'
import type { ModelConfig } from '../models/config.js'
import type { DecoderWeights } from '../models/layers.js'
import { headRanges, logprobModel, trainedLogprobModel } from './logprob-model.js'
import { headWeightName, type WeightSpec } from '../models/weights.js'
import { lossInputs, tokenLosses, type GraphLoss } from './losses.js'
import { loraNames, type LoraOptions } from '../models/lora.js'

/** Which numbers of a model are trained, and where the others lie. */
export interface TrainingPlan {
  readonly config: ModelConfig
  /** All weights, or adapters on frozen ones. */
  readonly training: 'full' | LoraOptions
  /** Where a frozen weight can be mapped from; undefined: the session gets it as a tensor. Only asked for adapters. */
  readonly file: (name: string) => WeightFile | undefined
}

/** What a graph is for. */
export interface TrainingGraphOptions {
  readonly loss: GraphLoss
  /** Whether gradients of the trained parameters are outputs. */
  readonly gradients: boolean
  /** Into how many pieces of the vocabulary the head is cut. */
  readonly headChunks: number
}

/** A range of rows of the head matrix that is fed as a tensor of its own. */
export interface HeadChunk {
  readonly name: string
  readonly start: number
  readonly end: number
}

const chunkName = (head: string, { start, end }: Omit<HeadChunk, 'name'>) => `${head}[${start}:${end}]`

/** The chunks of the vocabulary; a single one is the head matrix itself. */
export function headChunks(config: ModelConfig, count: number): HeadChunk[] {
  const name = headWeightName(config)
  if (count === 1) return [{ name, start: 0, end: config.vocabSize }]
  return headRanges(config.vocabSize, count).map((range) => ({ name: chunkName(name, range), ...range }))
}

/**
 * One pass over a micro-batch: tokens to `logprobs`, `entropy` and `token_losses`, each float32 [n], and with `gradients`
 * the gradient of the summed token losses with respect to each trained tensor, under `gradientName(its name)`.
 */
export function trainingGraph(plan: TrainingPlan, options: TrainingGraphOptions): SerialisedModel {
  const g = graph({ providers: ['cpu', 'cuda', 'webgpu'] })
  return g.outputs(trainingOutputs(g, plan, options))
}

/** The values behind {@link trainingGraph}, by output name. */
export function trainingOutputs(g: Graph, plan: TrainingPlan, options: TrainingGraphOptions): Record<string, Value> {
  const trained = new Map<string, Value>()
  const weights = planWeights(g, plan, trained)
  const build = options.gradients ? trainedLogprobModel : logprobModel
  const model = build(g, plan.config, weights, { headChunks: options.headChunks })
  const { logprobs } = model
  const losses = tokenLosses(g, options.loss, lossInputs(g, options.loss, logprobs))
  if ('entropy' in model) return { logprobs, entropy: model.entropy, token_losses: losses }
  const byLogprob = differentiate(g.reduceSum(losses), [logprobs]).of(logprobs)
  const parameters = [...trained.values()]
  const { gradients, entropy } = model.backward(byLogprob, parameters)
  const outputs: Record<string, Value> = { logprobs, entropy, token_losses: losses }
  for (const parameter of parameters) outputs[gradientName(parameter.name)] = gradients.of(parameter)
  return outputs
}

/** @internal The weights of a plan as values of a graph; those that are trained are entered into `trained`. */
export function planWeights(g: Graph, plan: TrainingPlan, trained: Map<string, Value>): DecoderWeights {
  const parameter = ({ name, shape }: WeightSpec): Value => {
    const known = trained.get(name) ?? g.parameter(name, 'float32', shape)
    trained.set(name, known)
    return known
  }
  const { training } = plan
  if (training === 'full') {
    return {
      weight: parameter,
      headRows: ({ name, shape }, range) =>
        parameter({ name: chunkName(name, range), shape: [range.end - range.start, shape[1]!] }),
    }
  }
  return {
    weight: ({ name, shape }) => g.named(name) ?? g.weight(name, 'float32', shape, plan.file(name)),
    headRows: (spec, range) => frozenRows(g, plan, spec, range),
    lora: (linear) => {
      if (!training.targets.includes(linear.name.split('.').at(-1)!)) return undefined
      const names = loraNames(linear.name)
      return {
        a: parameter({ name: names.a, shape: [training.rank, linear.inFeatures] }),
        b: parameter({ name: names.b, shape: [linear.outFeatures, training.rank] }),
        scale: training.alpha / training.rank,
      }
    },
  }
}

/** Rows of a matrix lie together, in a file as in memory. */
function frozenRows(g: Graph, plan: TrainingPlan, head: WeightSpec, range: Omit<HeadChunk, 'name'>): Value {
  const width = head.shape[1]!
  const rows = range.end - range.start
  const file = plan.file(head.name)
  const part = file && { path: file.path, offset: file.offset + 4 * range.start * width, length: 4 * rows * width }
  return g.weight(chunkName(head.name, range), 'float32', [rows, width], part)
}
