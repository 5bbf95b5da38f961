import {
  ancestors,
  type Graph,
  GraphError,
  isFloat,
  type Node,
  type OpName,
  sameDim,
  sameShape,
  shapeSize,
  type Value,
} from '../graph/index.js'
import { type Contribution, type Gradient, refuse, type Rule, type RuleSite } from './rule.js'
import { rules } from './rules/index.js'

/** A value, and the gradient of whatever comes after it. Both have one shape and dtype. */
export interface Seed {
  readonly value: Value
  readonly gradient: Value
}

export interface DifferentiateOptions {
  /** What happens to a value that the loss does not depend on. Default `error`. */
  readonly unreached?: 'error' | 'zeros'
}

export interface Gradients {
  /** By the value's name with `.grad` behind it, so that they can be outputs beside the inputs of those names. */
  readonly gradients: Readonly<Record<string, Value>>
  /** The gradient of one of the values. */
  readonly of: (value: Value) => Value
}

/** The key under which {@link differentiate} returns the gradient of a value of this name. */
export const gradientName = (name: string): string => `${name}.grad`

/**
 * Adds to the graph what computes the gradient of a loss (one number), by reverse-mode differentiation.
 *
 * Instead of a loss there may be seeds: values in the middle whose gradients are known; the result is the gradient of
 * the sum over seeds of <value, gradient>, gradients held fixed.
 */
export function differentiate(
  loss: Value | readonly Seed[],
  withRespectTo: readonly Value[],
  { unreached = 'error' }: DifferentiateOptions = {},
): Gradients {
  const seeds = 'id' in loss ? [lossSeed(loss)] : loss
  const g = checkSeeds(seeds, withRespectTo)
  const backward = new Backward(g, seeds, withRespectTo)
  backward.run()
  const found = new Map(withRespectTo.map((value) => [value.id, backward.final(value, unreached)]))
  const of = (value: Value): Value =>
    found.get(value.id) ?? fail(`the loss was not differentiated with respect to "${value.name}"`, value)
  return { gradients: Object.fromEntries(withRespectTo.map((value) => [gradientName(value.name), of(value)])), of }
}

function lossSeed(loss: Value): Seed {
  if (shapeSize(loss.shape) !== 1 || !isFloat(loss.dtype)) {
    fail(`a loss must be one floating-point number, not ${loss.dtype}[${loss.shape.join(', ')}]`, loss)
  }
  const shape = loss.shape.map(() => 1)
  return { value: loss, gradient: loss.graph.constant([1], loss.dtype, shape) }
}

function checkSeeds(seeds: readonly Seed[], withRespectTo: readonly Value[]): Graph {
  const first = seeds[0]
  if (!first) throw new GraphError('differentiate needs a loss or at least one seed; got none')
  for (const { value, gradient } of seeds) {
    if (value.dtype !== gradient.dtype || !sameShape(value.shape, gradient.shape)) {
      const types = [value, gradient].map(({ dtype, shape }) => `${dtype}[${shape.join(', ')}]`)
      fail(`a seed's gradient must be like its value, ${types[0]}, not ${types[1]}`, value)
    }
  }
  const { graph } = first.value
  if (withRespectTo.length === 0)
    throw new GraphError('differentiate needs at least one value to differentiate by; got none')
  for (const value of withRespectTo) {
    if (!isFloat(value.dtype)) fail(`${value.dtype} values have no gradient: "${value.name}"`, value)
  }
  for (const value of [...seeds.flatMap((seed) => [seed.value, seed.gradient]), ...withRespectTo]) {
    if (value.graph !== graph) fail(`"${value.name}" belongs to another graph`, value)
  }
  return graph
}

function fail(why: string, value: Value): never {
  throw new GraphError(why, { name: value.name, dtype: value.dtype, shape: value.shape })
}

const ruleOf = (op: OpName): Rule<OpName> => rules[op] as unknown as Rule<OpName>

class Backward {
  private readonly g: Graph
  private readonly nodes: readonly Node[]
  /** Values through which a gradient must pass. */
  private readonly active: Set<number>
  private readonly parts = new Map<number, Contribution[]>()
  private readonly sums = new Map<number, Value>()
  private readonly full = new Map<number, Value>()

  constructor(g: Graph, seeds: readonly Seed[], withRespectTo: readonly Value[]) {
    this.g = g
    this.nodes = ancestors(seeds.map(({ value }) => value))
    this.active = new Set(withRespectTo.map(({ id }) => id))
    for (const { value, gradient } of seeds) this.contribute(value, gradient)
    for (const node of this.nodes) {
      if (!passes(node) || !node.inputs.some((input) => input && this.active.has(input.id))) continue
      for (const output of node.outputs) if (isFloat(output.dtype)) this.active.add(output.id)
    }
  }

  run(): void {
    for (const node of this.nodes.toReversed()) {
      const isNeeded = node.inputs.map((input) => input !== undefined && this.active.has(input.id))
      const isReached = node.outputs.some(({ id }) => this.parts.has(id))
      if (isReached && passes(node) && isNeeded.includes(true)) this.visit(node, isNeeded)
    }
  }

  private visit(node: Node, isNeeded: readonly boolean[]): void {
    const rule = ruleOf(node.op)
    if (typeof rule !== 'function') return refuse(node.op, rule.why)
    const contributions = (rule as Gradient<OpName>)(this.site(node))
    contributions.forEach((make, index) => {
      if (make && isNeeded[index]) this.contribute(node.inputs[index]!, make())
    })
  }

  private site(node: Node): RuleSite {
    const { g } = this
    const missing = (): never => refuse(node.op, 'its first output has no gradient, only others have')
    return {
      g,
      node,
      params: node.params,
      outputs: node.outputs,
      input: (index) => node.inputs[index] ?? refuse(node.op, `input ${index} is missing`),
      maybeGrad: (index = 0) => this.whole(node.outputs[index]!),
      grad: () => this.whole(node.outputs[0]!) ?? missing(),
      compact: () => this.sum(node.outputs[0]!) ?? missing(),
    }
  }

  private contribute(value: Value, part: Contribution): void {
    if ('id' in part) {
      const fits =
        part.dtype === value.dtype &&
        part.shape.length === value.shape.length &&
        part.shape.every((dim, axis) => dim === 1 || sameDim(dim, value.shape[axis]!))
      if (!fits) fail(`a gradient of [${part.shape.join(', ')}] does not fit "${value.name}"`, value)
    }
    this.parts.set(value.id, [...(this.parts.get(value.id) ?? []), part])
  }

  /** The sum of all parts; sizes may be 1 where the value's are not. */
  private sum(value: Value): Value | undefined {
    const known = this.sums.get(value.id)
    const parts = this.parts.get(value.id)
    if (known || !parts) return known
    const tensors = parts.filter((part) => 'id' in part)
    let sum = tensors.slice(1).reduce<Value | undefined>((total, part) => this.g.add(total!, part), tensors[0])
    for (const part of parts) {
      if ('id' in part) continue
      sum = part.addInto(sum && this.g.expand(sum, value.shape))
    }
    this.sums.set(value.id, sum!)
    return sum
  }

  private whole(value: Value): Value | undefined {
    const known = this.full.get(value.id)
    const sum = this.sum(value)
    if (known || !sum) return known
    const full = this.g.expand(sum, value.shape)
    this.full.set(value.id, full)
    return full
  }

  final(value: Value, unreached: 'error' | 'zeros'): Value {
    const gradient = this.whole(value)
    if (gradient) return gradient
    if (unreached === 'zeros') return this.g.zeros(value.shape, value.dtype)
    return fail(
      `the loss does not depend on "${value.name}"; leave it out, or pass {unreached: 'zeros'} for a gradient of zeros`,
      value,
    )
  }
}

/** Whether gradients go through a node: flat ops and `stopGradient` end them. */
function passes(node: Node): boolean {
  const rule = ruleOf(node.op)
  if (typeof rule !== 'function') return rule.stop === 'refuse'
  return !(node.op === 'Identity' && (node as Node<'Identity'>).params.stopGradient)
}
