import { multiplyDims, sameDim, sameShape, shapeSize } from '../dims.js'
import { anything, numbers } from '../dtypes.js'
import { int, ints, type Op, type Operand, scalar, vector } from '../ir.js'
import type { Dim, DType, Shape } from '../types.js'
import { broadcastShapes, checkAxis, like } from './inference.js'

export interface ShapeParams {
  readonly shape: Shape
}
export interface TransposeParams {
  readonly permutation: readonly number[]
}
/** A contiguous piece of one axis. */
export interface SliceParams {
  readonly axis: number
  readonly start: number
  /** Exclusive; negative counts from the end; undefined is the end. */
  readonly end: number | undefined
  /** Of the piece. */
  readonly size: Dim
}
export interface ConcatParams {
  readonly axis: number
  /** Of the whole. */
  readonly size: Dim
}
export interface SplitParams {
  readonly axis: number
  readonly sizes: Shape
}
export interface AxesParams {
  /** Non-negative; for Unsqueeze they are axes of the result. */
  readonly axes: readonly number[]
}
export interface TriluParams {
  readonly upper: boolean
  /** Diagonal from which to keep (upper) or up to which (lower). */
  readonly k: number
}
export interface RangeParams {
  /** Number of elements. */
  readonly size: Dim
}
export interface TileParams {
  readonly repeats: readonly number[]
}

/** A constant where 0 (copy) and one -1 (infer) can say it; else sizes that the runtime fills in. */
function reshapeOperand(from: Shape, to: Shape): Operand {
  const values = to.map((dim, axis) => {
    if (typeof dim === 'number') return dim
    const source = from[axis]
    return source !== undefined && sameDim(source, dim) ? 0 : -1
  })
  return values.filter((value) => value === -1).length <= 1 ? vector(values) : { dims: to }
}

function sizesOperand(sizes: Shape): Operand {
  const known = sizes.filter((dim) => typeof dim === 'number')
  return known.length === sizes.length ? vector(known) : { dims: sizes }
}

const reshape: Op<ShapeParams> = {
  domain: '',
  since: 21,
  inputTypes: ['T', 'shape'],
  outputTypes: ['T'],
  types: { T: anything },
  infer: (site) => {
    const x = site.input(0)
    const { shape } = site.params
    if (shape.includes(0)) site.fail('a size of 0 cannot be reshaped to')
    if (!sameDim(shapeSize(x.shape), shapeSize(shape)))
      site.fail(`[${shape.join(', ')}] has another number of elements`)
    return [{ dtype: x.dtype, shape }]
  },
  lower: ([x], { shape }) => ({ inputs: [x, reshapeOperand(x!.shape, shape)], attributes: {} }),
}

const expand: Op<ShapeParams> = {
  domain: '',
  since: 13,
  inputTypes: ['T', 'int64'],
  outputTypes: ['T'],
  types: { T: anything },
  infer: (site) => {
    const x = site.input(0)
    const { shape } = site.params
    const result = broadcastShapes(x.shape, shape)
    if (!result || !sameShape(result, shape)) site.fail(`it does not broadcast to [${shape.join(', ')}]`)
    return [{ dtype: x.dtype, shape }]
  },
  lower: ([x], { shape }) => ({ inputs: [x, sizesOperand(shape)], attributes: {} }),
}

const transpose: Op<TransposeParams> = {
  domain: '',
  since: 21,
  inputTypes: ['T'],
  outputTypes: ['T'],
  types: { T: anything },
  infer: (site) => {
    const { dtype, shape } = site.input(0)
    const { permutation } = site.params
    if (permutation.toSorted((a, b) => a - b).some((axis, i) => axis !== i) || permutation.length !== shape.length) {
      site.fail(`[${permutation.join(', ')}] does not name each of its axes once`)
    }
    return [{ dtype, shape: permutation.map((axis) => shape[axis]!) }]
  },
  lower: (inputs, { permutation }) => ({
    inputs,
    attributes: permutation.length > 0 ? { perm: ints(permutation) } : {},
  }),
}

const slice: Op<SliceParams> = {
  domain: '',
  since: 13,
  inputTypes: ['T', 'Tind'],
  outputTypes: ['T'],
  types: { T: anything },
  infer: (site) => {
    const { dtype, shape } = site.input(0)
    const { axis, start, end, size } = site.params
    checkAxis(site, axis, shape.length)
    if (typeof size === 'number' && size <= 0) {
      site.fail(`the piece from ${start} to ${end ?? 'the end'} of axis ${axis} is empty`)
    }
    return [{ dtype, shape: shape.with(axis, size) }]
  },
  lower: ([x], { axis, start, end }) => ({
    inputs: [x, vector([start]), vector([end ?? Number.MAX_SAFE_INTEGER]), vector([axis])],
    attributes: {},
  }),
}

const concat: Op<ConcatParams> = {
  domain: '',
  since: 13,
  inputTypes: ['T'],
  outputTypes: ['T'],
  types: { T: anything },
  infer: (site) => {
    const { axis, size } = site.params
    const first = site.input(0)
    checkAxis(site, axis, first.shape.length)
    site.inputs.forEach((_, i) => {
      const { shape } = site.input(i)
      if (shape.length !== first.shape.length || !sameShape(shape.with(axis, size), first.shape.with(axis, size))) {
        site.fail(`all sizes but that of axis ${axis} must agree`)
      }
    })
    return [{ dtype: first.dtype, shape: first.shape.with(axis, size) }]
  },
  lower: (inputs, { axis }) => ({ inputs, attributes: { axis: int(axis) } }),
}

const split: Op<SplitParams> = {
  domain: '',
  since: 18,
  inputTypes: ['T', 'int64'],
  outputTypes: ['T'],
  types: { T: anything },
  infer: (site) => {
    const { dtype, shape } = site.input(0)
    const { axis, sizes } = site.params
    checkAxis(site, axis, shape.length)
    const whole = shape[axis]!
    const known = sizes.filter((size) => typeof size === 'number')
    const sum = known.reduce((total, size) => total + size, 0)
    const fits = known.length < sizes.length || typeof whole === 'string' || sum === whole
    if (sizes.length === 0 || !fits) site.fail(`sizes [${sizes.join(', ')}] do not add up to ${whole}`)
    return sizes.map((size) => ({ dtype, shape: shape.with(axis, size) }))
  },
  lower: ([x], { axis, sizes }) => ({ inputs: [x, sizesOperand(sizes)], attributes: { axis: int(axis) } }),
}

const axesOp = (infer: Op<AxesParams>['infer']): Op<AxesParams> => ({
  domain: '',
  since: 21,
  inputTypes: ['T', 'int64'],
  outputTypes: ['T'],
  types: { T: anything },
  infer,
  lower: ([x], { axes }) => ({ inputs: [x, vector(axes)], attributes: {} }),
})

const unsqueeze = axesOp((site) => {
  const { dtype, shape } = site.input(0)
  const { axes } = site.params
  const result = [...shape]
  for (const axis of axes.toSorted((a, b) => a - b)) {
    checkAxis(site, axis, shape.length + axes.length)
    result.splice(axis, 0, 1)
  }
  return [{ dtype, shape: result }]
})

const squeeze = axesOp((site) => {
  const { dtype, shape } = site.input(0)
  const { axes } = site.params
  for (const axis of axes) {
    checkAxis(site, axis, shape.length)
    if (shape[axis] !== 1) site.fail(`axis ${axis} has size ${shape[axis]}, not 1`)
  }
  return [{ dtype, shape: shape.filter((_, axis) => !axes.includes(axis)) }]
})

const trilu: Op<TriluParams> = {
  domain: '',
  since: 14,
  inputTypes: ['T', 'int64'],
  outputTypes: ['T'],
  types: { T: anything },
  infer: (site) => {
    if (site.input(0).shape.length < 2) site.fail('it needs at least two axes')
    return like<TriluParams>()(site)
  },
  lower: ([x], { upper, k }) => ({ inputs: [x, scalar(k)], attributes: { upper: int(upper) } }),
}

const rangeTypes: readonly DType[] = ['float32', 'float64', 'int32', 'int64']
const range: Op<RangeParams> = {
  domain: '',
  since: 11,
  inputTypes: ['T', 'T', 'T'],
  outputTypes: ['T'],
  types: { T: rangeTypes },
  infer: (site) => {
    if ([0, 1, 2].some((i) => site.input(i).shape.length > 0)) site.fail('start, limit and delta must be scalars')
    return [{ dtype: site.input(0).dtype, shape: [site.params.size] }]
  },
}

const tile: Op<TileParams> = {
  domain: '',
  since: 13,
  inputTypes: ['T', 'T1'],
  outputTypes: ['T'],
  types: { T: numbers },
  infer: (site) => {
    const { dtype, shape } = site.input(0)
    const { repeats } = site.params
    if (repeats.length !== shape.length) site.fail(`it needs one repeat an axis, not [${repeats.join(', ')}]`)
    return [{ dtype, shape: shape.map((dim, axis) => multiplyDims(dim, repeats[axis]!)) }]
  },
  lower: ([x], { repeats }) => ({ inputs: [x, vector(repeats)], attributes: {} }),
}

export const shape = {
  Reshape: reshape,
  Expand: expand,
  Transpose: transpose,
  Slice: slice,
  Concat: concat,
  Split: split,
  Unsqueeze: unsqueeze,
  Squeeze: squeeze,
  Trilu: trilu,
  Range: range,
  Tile: tile,
} satisfies Record<string, Op<never>>
