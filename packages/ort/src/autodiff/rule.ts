import { type Graph, GraphError, type Node, type OpName, type ParamsOf, type Value } from '../graph/index.js'

/**
 * Part of a value's gradient: a tensor of the value's rank whose sizes equal the value's or are 1 (the gradient is then
 * the same all along that axis), or a way to add to the other parts without making a tensor of its own first.
 */
export type Contribution = Value | AddInto

export interface AddInto {
  /** `base` has the full shape; undefined is zero. */
  readonly addInto: (base: Value | undefined) => Value
}

/** What a rule sees of one node. */
export interface RuleSite<N extends OpName = OpName> {
  readonly g: Graph
  readonly node: Node<N>
  readonly params: ParamsOf<N>
  readonly outputs: readonly Value[]
  /** The input at this index, which is there. */
  readonly input: (index: number) => Value
  /** Gradient of output `index` (default 0) in its full shape, undefined where nothing reads that output. */
  readonly maybeGrad: (index?: number) => Value | undefined
  /** Gradient of output 0 in its full shape. */
  readonly grad: () => Value
  /** Gradient of output 0, in which axes of size 1 may stand for repeated numbers. */
  readonly compact: () => Value
}

/** Gradients of the inputs, in order; undefined for those that have none. Only those that are needed are called. */
export type Gradient<N extends OpName> = (site: RuleSite<N>) => readonly ((() => Contribution) | undefined)[]

/** An op through which no gradient passes. */
export interface Stop {
  /** `flat`: the gradient is zero or there is none to speak of. `refuse`: asking for it is an error. */
  readonly stop: 'flat' | 'refuse'
  readonly why: string
}

export type Rule<N extends OpName> = Gradient<N> | Stop

/** One rule for each op: leaving one out does not compile. */
export type RuleTable<Names extends OpName = OpName> = { readonly [N in Names]: Rule<N> }

/** Of ops with integer or boolean results, and of steps, whose slope is zero wherever there is one. */
export const notDifferentiable = (why: string): Stop => ({ stop: 'flat', why })

/** Of ops that are meant for inference: a gradient would have to be asked for by mistake. */
export const inferenceOnly = (why: string): Stop => ({ stop: 'refuse', why })

export function refuse(op: string, why: string): never {
  throw new GraphError(`${op}: ${why}`, { op })
}
