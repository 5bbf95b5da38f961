import { numbers } from '../dtypes.js'
import { int, type Op, scalar, type Site, vector } from '../ir.js'
import type { DType, Shape } from '../types.js'
import { checkAxis, like } from './inference.js'

export interface ReduceParams {
  /** Non-negative, ascending, without repeats. */
  readonly axes: readonly number[]
  readonly keepDims: boolean
}
export interface CumSumParams {
  readonly axis: number
  /** Leave each element's own value out. */
  readonly exclusive: boolean
  /** Sum from the end. */
  readonly reverse: boolean
}
export interface TopKParams {
  readonly axis: number
  readonly k: number
  readonly largest: boolean
}
export interface ArgMaxParams {
  readonly axis: number
  readonly keepDims: boolean
}

function reducedShape<P>(site: Site<P>, axes: readonly number[], keepDims: boolean): Shape {
  const { shape } = site.input(0)
  for (const axis of axes) checkAxis(site, axis, shape.length)
  if (new Set(axes).size !== axes.length) site.fail(`axes [${axes.join(', ')}] repeat`)
  if (keepDims) return shape.map((dim, axis) => (axes.includes(axis) ? 1 : dim))
  return shape.filter((_, axis) => !axes.includes(axis))
}

const reduction = (since: number): Op<ReduceParams> => ({
  domain: '',
  since,
  inputTypes: ['T', 'int64'],
  outputTypes: ['T'],
  types: { T: numbers },
  infer: (site) => [{ dtype: site.input(0).dtype, shape: reducedShape(site, site.params.axes, site.params.keepDims) }],
  lower: ([x], { axes, keepDims }) => ({
    // An empty list would mean all axes.
    inputs: axes.length > 0 ? [x, vector(axes)] : [x, undefined],
    attributes: { keepdims: int(keepDims), ...(axes.length === 0 && { noop_with_empty_axes: int(1) }) },
  }),
})

const cumSum: Op<CumSumParams> = {
  domain: '',
  since: 14,
  inputTypes: ['T', 'T2'],
  outputTypes: ['T'],
  types: { T: numbers },
  infer: (site) => {
    checkAxis(site, site.params.axis, site.input(0).shape.length)
    return like<CumSumParams>()(site)
  },
  lower: ([x], { axis, exclusive, reverse }) => ({
    inputs: [x, scalar(axis, 'int32')],
    attributes: { exclusive: int(exclusive), reverse: int(reverse) },
  }),
}

const topK: Op<TopKParams> = {
  domain: '',
  since: 11,
  inputTypes: ['T', 'int64'],
  outputTypes: ['T', 'I'],
  types: { T: numbers },
  infer: (site) => {
    const { axis, k } = site.params
    const { dtype, shape } = site.input(0)
    checkAxis(site, axis, shape.length)
    const size = shape[axis]!
    if (!Number.isInteger(k) || k < 1 || (typeof size === 'number' && k > size)) {
      site.fail(`k must be a whole number from 1 to ${size}, not ${k}`)
    }
    const kept = shape.with(axis, k)
    return [
      { dtype, shape: kept },
      { dtype: 'int64', shape: kept },
    ]
  },
  lower: ([x], { axis, k, largest }) => ({
    inputs: [x, vector([k])],
    attributes: { axis: int(axis), largest: int(largest), sorted: int(1) },
  }),
}

const argMax: Op<ArgMaxParams> = {
  domain: '',
  since: 13,
  inputTypes: ['T'],
  outputTypes: ['int64'],
  types: { T: numbers },
  infer: (site) => [{ dtype: 'int64' as DType, shape: reducedShape(site, [site.params.axis], site.params.keepDims) }],
  lower: (inputs, { axis, keepDims }) => ({ inputs, attributes: { axis: int(axis), keepdims: int(keepDims) } }),
}

export const reduce = {
  ReduceSum: reduction(13),
  ReduceMean: reduction(18),
  ReduceMax: reduction(20),
  ReduceSumSquare: reduction(18),
  CumSum: cumSum,
  TopK: topK,
  ArgMax: argMax,
} satisfies Record<string, Op<never>>
