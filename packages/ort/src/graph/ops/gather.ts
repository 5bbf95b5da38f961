import { sameDim, sameShape } from '../dims.js'
import { anything, indices, numbers } from '../dtypes.js'
import { int, type Op, type Site, string } from '../ir.js'
import { checkAxis } from './inference.js'

export interface GatherParams {
  readonly axis: number
}
export interface GatherNDParams {
  readonly batchDims: number
}
export interface ScatterParams {
  readonly axis: number
  readonly reduction: 'none' | 'add'
}
export interface ScatterNDParams {
  readonly reduction: 'none' | 'add'
}

const gatherOp: Op<GatherParams> = {
  domain: '',
  since: 13,
  inputTypes: ['T', 'Tind'],
  outputTypes: ['T'],
  types: { T: anything, Tind: indices },
  infer: (site) => {
    const { dtype, shape } = site.input(0)
    const { axis } = site.params
    checkAxis(site, axis, shape.length)
    return [{ dtype, shape: [...shape.slice(0, axis), ...site.input(1).shape, ...shape.slice(axis + 1)] }]
  },
  lower: (inputs, { axis }) => ({ inputs, attributes: { axis: int(axis) } }),
}

/** Sizes off the axis may be smaller in the indices, where both are known. */
const fitsWithin = (inner: string | number, outer: string | number): boolean =>
  sameDim(inner, outer) || (typeof inner === 'number' && (typeof outer === 'string' ? inner === 1 : inner <= outer))

/** Data and the indices into one of its axes. */
function alongAxis(site: Site<{ readonly axis: number }>) {
  const data = site.input(0)
  const at = site.input(1)
  const { axis } = site.params
  checkAxis(site, axis, data.shape.length)
  const fits = at.shape.every((dim, i) => i === axis || fitsWithin(dim, data.shape[i]!))
  if (at.shape.length !== data.shape.length || !fits) site.fail('the indices must fit the data in all but the axis')
  return { data, at }
}

const gatherElements: Op<GatherParams> = {
  domain: '',
  since: 13,
  inputTypes: ['T', 'Tind'],
  outputTypes: ['T'],
  types: { T: anything, Tind: indices },
  infer: (site) => {
    const { data, at } = alongAxis(site)
    return [{ dtype: data.dtype, shape: at.shape }]
  },
  lower: (inputs, { axis }) => ({ inputs, attributes: { axis: int(axis) } }),
}

const gatherND: Op<GatherNDParams> = {
  domain: '',
  since: 13,
  inputTypes: ['T', 'int64'],
  outputTypes: ['T'],
  types: { T: anything },
  infer: (site) => {
    const data = site.input(0)
    const at = site.input(1)
    const { batchDims } = site.params
    const depth = at.shape.at(-1)
    if (typeof depth !== 'number' || depth < 1 || batchDims + depth > data.shape.length) {
      return site.fail('the last size of the indices must be a number of axes of the data')
    }
    if (!sameShape(at.shape.slice(0, batchDims), data.shape.slice(0, batchDims))) site.fail('the batch axes differ')
    return [{ dtype: data.dtype, shape: [...at.shape.slice(0, -1), ...data.shape.slice(batchDims + depth)] }]
  },
  lower: (inputs, { batchDims }) => ({ inputs, attributes: { batch_dims: int(batchDims) } }),
}

const scatterElements: Op<ScatterParams> = {
  domain: '',
  since: 18,
  inputTypes: ['T', 'Tind', 'T'],
  outputTypes: ['T'],
  types: { T: numbers, Tind: indices },
  infer: (site) => {
    const { data, at } = alongAxis(site)
    if (!sameShape(at.shape, site.input(2).shape)) site.fail('indices and updates must have one shape')
    return [{ dtype: data.dtype, shape: data.shape }]
  },
  lower: (inputs, { axis, reduction }) => ({
    inputs,
    attributes: { axis: int(axis), reduction: string(reduction) },
  }),
}

const scatterND: Op<ScatterNDParams> = {
  domain: '',
  since: 18,
  inputTypes: ['T', 'int64', 'T'],
  outputTypes: ['T'],
  types: { T: numbers },
  infer: (site) => {
    const data = site.input(0)
    const at = site.input(1)
    const depth = at.shape.at(-1)
    if (typeof depth !== 'number' || depth < 1 || depth > data.shape.length) {
      return site.fail('the last size of the indices must be a number of axes of the data')
    }
    const updates = [...at.shape.slice(0, -1), ...data.shape.slice(depth)]
    if (!sameShape(updates, site.input(2).shape)) site.fail(`the updates must be [${updates.join(', ')}]`)
    return [{ dtype: data.dtype, shape: data.shape }]
  },
  lower: (inputs, { reduction }) => ({ inputs, attributes: { reduction: string(reduction) } }),
}

export const gather = {
  Gather: gatherOp,
  GatherElements: gatherElements,
  GatherND: gatherND,
  ScatterElements: scatterElements,
  ScatterND: scatterND,
} satisfies Record<string, Op<never>>
