import type { OpName, Value } from '../../graph/index.js'
import type { reduce } from '../../graph/ops/reduce.js'
import { notDifferentiable, type RuleSite, type RuleTable } from '../rule.js'

type Reduction = 'ReduceSum' | 'ReduceMean' | 'ReduceMax' | 'ReduceSumSquare'

/** A value in the reduced shape, with the reduced axes back as size 1. */
function restored<N extends Reduction & OpName>(site: RuleSite<N>, value: Value): Value {
  const { axes, keepDims } = site.params as { axes: readonly number[]; keepDims: boolean }
  return keepDims || axes.length === 0 ? value : site.g.unsqueeze(value, axes)
}

export const reduceRules: RuleTable<keyof typeof reduce> = {
  ReduceSum: (site) => [() => restored(site, site.compact())],
  ReduceMean: (site) => [
    () => {
      const { shape, dtype } = site.input(0)
      const count = site.g.count(
        site.params.axes.map((axis) => shape[axis]!),
        dtype,
      )
      return restored(site, site.g.div(site.compact(), count))
    },
  ],
  // Equal maxima share the gradient.
  ReduceMax: (site) => [
    () => {
      const { g } = site
      const x = site.input(0)
      const isMaximum = g.cast(g.equal(x, restored(site, site.outputs[0]!)), x.dtype)
      const count = g.reduceSum(isMaximum, { axes: site.params.axes, keepDims: true })
      return g.mul(isMaximum, g.div(restored(site, site.compact()), count))
    },
  ],
  ReduceSumSquare: (site) => [() => site.g.mul(site.input(0), site.g.mul(restored(site, site.compact()), 2))],
  CumSum: (site) => [() => site.g.cumSum(site.grad(), { ...site.params, reverse: !site.params.reverse })],
  TopK: (site) => [
    () => ({
      addInto: (base) => {
        const { g } = site
        const { shape, dtype } = site.input(0)
        const { axis } = site.params
        const options = { axis, reduction: 'add' } as const
        return g.scatterElements(base ?? g.zeros(shape, dtype), site.outputs[1]!, site.grad(), options)
      },
    }),
  ],
  ArgMax: notDifferentiable('its result is a position'),
}
