import type { Dim, Shape, Value } from '../../graph/index.js'
import type { shape } from '../../graph/ops/shape.js'
import { sumTo } from '../broadcast.js'
import type { RuleSite, RuleTable } from '../rule.js'

/** The gradient of a piece with zeros where the rest of the axis is. */
function padded(site: RuleSite<'Slice'>): Value {
  const { g } = site
  const { shape: whole, dtype } = site.input(0)
  const { axis, start, end } = site.params
  const length = whole[axis]!
  const zeros = (size: Dim) => g.zeros(whole.with(axis, size), dtype)
  const parts = start > 0 ? [zeros(start)] : []
  parts.push(site.grad())
  if (typeof length === 'number') {
    const rest = length - start - (site.params.size as number)
    if (rest > 0) parts.push(zeros(rest))
  } else if (end !== undefined && end < 0) parts.push(zeros(-end))
  else if (end !== undefined)
    parts.push(g.slice(g.zeros(whole, dtype), { axis, start: end, size: `${symbolOf(site)}.rest` }))
  return parts.length === 1 ? parts[0]! : g.apply('Concat', parts, { axis, size: length })[0]!
}

/** A size that no other value has: what is left of an axis after a piece of unknown share. */
const symbolOf = (site: RuleSite<'Slice'>): string => `slice_${site.node.id}`

/** [r0, d0, r1, d1, ...]: a tiled tensor with its repeats on axes of their own. */
function tileShape(repeats: readonly number[], dims: Shape): Shape {
  return dims.flatMap((dim, axis) => [repeats[axis]!, dim])
}

export const shapeRules: RuleTable<keyof typeof shape> = {
  Reshape: (site) => [() => site.g.reshape(site.grad(), site.input(0).shape)],
  Expand: (site) => [() => sumTo(site.grad(), site.input(0).shape)],
  Transpose: (site) => [
    () => {
      const { permutation } = site.params
      const inverse = permutation.map((_, axis) => permutation.indexOf(axis))
      return site.g.transpose(site.compact(), inverse)
    },
  ],
  Slice: (site) => [() => padded(site)],
  Concat: (site) => {
    const { axis } = site.params
    const sizes = site.node.inputs.map((input) => input!.shape[axis]!)
    let pieces: readonly Value[] | undefined
    const piece = (index: number) => (pieces ??= site.g.split(site.grad(), sizes, { axis }))[index]!
    return sizes.map((_, index) => () => piece(index))
  },
  Split: (site) => [
    () => {
      const { g } = site
      const { axis } = site.params
      const parts = site.outputs.map(({ shape: of, dtype }, index) => site.maybeGrad(index) ?? g.zeros(of, dtype))
      return g.apply('Concat', parts, { axis, size: site.input(0).shape[axis]! })[0]!
    },
  ],
  Unsqueeze: (site) => [() => site.g.squeeze(site.compact(), site.params.axes)],
  Squeeze: (site) => [() => site.g.unsqueeze(site.compact(), site.params.axes)],
  Trilu: (site) => [() => site.g.trilu(site.grad(), site.params)],
  // y[i] = start + i delta; the limit only decides how many there are.
  Range: (site) => {
    const { g } = site
    const [start, delta] = [site.input(0), site.input(2)]
    return [
      () => g.reduceSum(site.grad()),
      undefined,
      () => g.div(g.reduceSum(g.mul(site.grad(), g.sub(site.outputs[0]!, start))), delta),
    ]
  },
  Tile: (site) => [
    () => {
      const { g } = site
      const { repeats } = site.params
      const dims = site.input(0).shape
      const axes = repeats.map((_, axis) => 2 * axis)
      return g.reshape(g.reduceSum(g.reshape(site.grad(), tileShape(repeats, dims)), { axes }), dims)
    },
  ],
}
