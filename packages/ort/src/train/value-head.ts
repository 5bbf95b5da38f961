import { InvalidInputError } from '@selfplay/engine'
import { differentiate, gradientName } from '../autodiff/index.js'
import type { ParameterSpec } from '../checkpoint/index.js'
import { graph, type Graph, type SerialisedModel, type Value } from '../graph/index.js'
import { decoder, decoderInputs } from '../models/decoder.js'
import { Layers } from '../models/layers.js'
import { FINAL_NORM } from '../models/weights.js'
import { derivedSeed, TokenStream } from '../sample/random.js'
import { planWeights, type TrainingPlan } from './training-graph.js'

/** Names of the head's weights, as a sequence of Linear, Tanh, Linear has them. */
export const VALUE_HEAD = {
  inner: { weight: 'value_head.0.weight', bias: 'value_head.0.bias' },
  outer: { weight: 'value_head.2.weight', bias: 'value_head.2.bias' },
} as const

/** Standard deviation of the head's weights at the start. */
const INITIAL_STD = 0.02

export interface ValueHeadOptions {
  /** Width of the layer between the two linear ones. Default: the model's hidden size. */
  readonly hiddenSize?: number
}

/**
 * Name and shape of each weight of a head.
 * @param modelSize hidden size of the decoder.
 * @throws InvalidInputError when the width is not a whole number >= 1.
 */
export function valueHeadWeights(
  modelSize: number,
  { hiddenSize = modelSize }: ValueHeadOptions = {},
): ParameterSpec[] {
  if (!Number.isSafeInteger(hiddenSize) || hiddenSize < 1) {
    throw new InvalidInputError(`valueHead.hiddenSize must be a whole number >= 1, got ${hiddenSize}`, {
      got: hiddenSize,
    })
  }
  const { inner, outer } = VALUE_HEAD
  return [
    { name: inner.weight, shape: [hiddenSize, modelSize] },
    { name: inner.bias, shape: [hiddenSize] },
    { name: outer.weight, shape: [1, hiddenSize] },
    { name: outer.bias, shape: [1] },
  ]
}

/** A head's start: weights normal(0, 0.02) by Box & Muller 1958, biases 0. Equal seeds give equal heads. */
export function initialValueHead({ name, shape }: ParameterSpec, seed: number): Float32Array {
  const values = new Float32Array(shape.reduce((a, b) => a * b, 1))
  if (name.endsWith('.bias')) return values
  const stream = new TokenStream(derivedSeed(seed, name === VALUE_HEAD.inner.weight ? 0 : 1), 0)
  const pair = new Float32Array(2)
  for (let at = 0; at < values.length; at += 2) {
    stream.draw(at / 2, pair, 0)
    const radius = INITIAL_STD * Math.sqrt(-2 * Math.log(1 - pair[0]!))
    const angle = 2 * Math.PI * pair[1]!
    values[at] = radius * Math.cos(angle)
    if (at + 1 < values.length) values[at + 1] = radius * Math.sin(angle)
  }
  return values
}

/** What a value graph is for. */
export interface ValueGraphOptions {
  /** `null`: values only. `clipRange` null: the squared error as it is. */
  readonly loss: { readonly clipRange: number | null } | null
}

/**
 * One pass over a micro-batch: `values` [n] at n positions of batch*seq. With a loss, also `losses` [n] and the gradient of
 * their sum with respect to each parameter among its inputs, under `gradientName(its name)`. Each loss is weights * (V - y)^2, or, clipped,
 * weights * max((V - y)^2, (old + clip(V - old, -range, range) - y)^2) (Schulman et al. 2017, as its baseline code has it).
 */
export function valueGraph(
  plan: TrainingPlan,
  head: readonly ParameterSpec[],
  options: ValueGraphOptions,
): SerialisedModel {
  const g = graph({ providers: ['cpu', 'cuda', 'webgpu'] })
  return g.outputs(valueOutputs(g, plan, head, options))
}

/** The values behind {@link valueGraph}, by output name. */
export function valueOutputs(
  g: Graph,
  plan: TrainingPlan,
  head: readonly ParameterSpec[],
  { loss }: ValueGraphOptions,
): Record<string, Value> {
  const trained = new Map<string, Value>()
  const weights = planWeights(g, plan, trained)
  const rows = g.input('rows', 'int32', ['n'])
  const states = decoder(g, plan.config, decoderInputs(g, plan.config), weights, rows)
  const hidden = new Layers(g, plan.config, weights).norm(states, FINAL_NORM)
  for (const { name, shape } of head) trained.set(name, g.parameter(name, 'float32', shape))
  const of = (name: string) => trained.get(name)!
  const { inner, outer } = VALUE_HEAD
  const middle = g.tanh(g.gemm(hidden, of(inner.weight), of(inner.bias), { transB: true }))
  const values = g.reshape(g.gemm(middle, of(outer.weight), of(outer.bias), { transB: true }), ['n'])
  const outputs: Record<string, Value> = { values }
  if (!loss) return outputs
  const losses = valueLosses(g, values, loss.clipRange)
  const gradients = differentiate(g.reduceSum(losses), [...trained.values()])
  outputs.losses = losses
  for (const [name, parameter] of trained) outputs[gradientName(name)] = gradients.of(parameter)
  return outputs
}

function valueLosses(g: Graph, values: Value, clipRange: number | null): Value {
  const targets = g.input('value_targets', 'float32', ['n'])
  const weights = g.input('value_weights', 'float32', ['n'])
  const error = g.square(g.sub(values, targets))
  if (clipRange === null) return g.mul(weights, error)
  const old = g.input('old_values', 'float32', ['n'])
  const near = g.add(old, g.clip(g.sub(values, old), { min: -clipRange, max: clipRange }))
  return g.mul(weights, g.max(error, g.square(g.sub(near, targets))))
}
