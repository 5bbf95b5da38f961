import { sameDim } from '../dims.js'
import type { Op, Site, TensorType, Value } from '../ir.js'
import type { Dim, DType, Shape } from '../types.js'

/** Of ops that have nothing to configure. */
export type NoParams = Readonly<Record<never, never>>
export const noParams: NoParams = {}

/** The numpy broadcast of shapes: sizes must be equal, or 1. Undefined where they are neither. */
export function broadcastShapes(...shapes: readonly Shape[]): Shape | undefined {
  const rank = Math.max(...shapes.map((shape) => shape.length))
  const result: Dim[] = []
  for (let axis = 0; axis < rank; axis++) {
    let size: Dim = 1
    for (const shape of shapes) {
      const dim = shape[axis - rank + shape.length] ?? 1
      if (dim === 1 || sameDim(dim, size)) continue
      if (size !== 1) return undefined
      size = dim
    }
    result.push(size)
  }
  return result
}

export function broadcast<P>(site: Site<P>, ...values: readonly Value[]): Shape {
  return broadcastShapes(...values.map((value) => value.shape)) ?? site.fail('the shapes do not broadcast')
}

export function checkAxis<P>(site: Site<P>, axis: number, rank: number): void {
  if (!Number.isInteger(axis) || axis < 0 || axis >= rank) {
    site.fail(`axis ${axis} is not among the ${rank} axes of the input`)
  }
}

export const like =
  <P>(dtype?: DType) =>
  (site: Site<P>): readonly TensorType[] => {
    const { shape, dtype: own } = site.input(0)
    return [{ dtype: dtype ?? own, shape }]
  }

/** An op of one input and one output of the same type. */
export function unary(since: number, types: readonly DType[], parameter = 'T'): Op<NoParams> {
  return {
    domain: '',
    since,
    inputTypes: [parameter],
    outputTypes: [parameter],
    types: { [parameter]: types },
    infer: like(),
  }
}

/** An op of two broadcast inputs. `result` fixes the output's dtype (comparisons). */
export function binary(since: number, types: readonly DType[], result?: DType): Op<NoParams> {
  return {
    domain: '',
    since,
    inputTypes: ['T', 'T'],
    outputTypes: [result === undefined ? 'T' : 'T1'],
    types: { T: types },
    infer: (site) => {
      const a = site.input(0)
      return [{ dtype: result ?? a.dtype, shape: broadcast(site, a, site.input(1)) }]
    },
  }
}
