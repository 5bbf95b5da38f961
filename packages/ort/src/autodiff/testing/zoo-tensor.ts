/** Specimens of the ops that reduce, move and pick. */
import { multiplyDims, type Shape, type Value } from '../../graph/index.js'
import type { reduce } from '../../graph/ops/reduce.js'
import type { gather } from '../../graph/ops/gather.js'
import type { shape } from '../../graph/ops/shape.js'
import type { Kit } from './kit.js'

type Specimen = (kit: Kit, x: Value) => Value
type Reduction = 'reduceSum' | 'reduceMean' | 'reduceMax' | 'reduceSumSquare'

const reduction =
  (op: Reduction): Specimen =>
  (kit, x) => {
    const wide = kit.atLeast(x, 1)
    return kit.g[op](wide, { axes: kit.axes(wide), keepDims: kit.coin() })
  }

/** Axes in random order. */
function shuffled(kit: Kit, count: number): number[] {
  const rest = Array.from({ length: count }, (_, i) => i)
  return Array.from({ length: count }, () => rest.splice(kit.below(rest.length), 1)[0]!)
}

const reshape: Specimen = (kit, x) => {
  const wide = kit.atLeast(x, 2)
  const [first, second, ...others] = wide.shape
  const merged: Shape = [multiplyDims(first!, second!), ...others]
  return kit.g.reshape(wide, kit.pick(merged, [1, ...wide.shape], [multiplyDims(...wide.shape), 1], [-1]))
}

const expand: Specimen = (kit, x) => {
  const wide = kit.g.unsqueeze(x, [kit.below(x.shape.length + 1)])
  const target = wide.shape.map((dim) => (dim === 1 && kit.coin() ? 3 : dim))
  return kit.g.expand(wide, kit.coin() ? [2, ...target] : target)
}

const slice: Specimen = (kit, x) => {
  const wide = kit.listed(x)
  const axis = wide.shape.length - 1
  const size = kit.size(wide.shape[axis]!)
  const start = kit.below(size)
  return kit.g.slice(wide, { axis, start, ...(kit.coin() && start < size - 1 && { end: kit.pick(-1, size - 1) }) })
}

const concat: Specimen = (kit, x) => {
  const { g } = kit
  const wide = kit.listed(x)
  const other = kit.parameter(wide.shape.with(-1, 1 + kit.below(2)))
  return g.concat(kit.coin() ? [wide, other, wide] : [other, wide], { axis: -1 })
}

const split: Specimen = (kit, x) => {
  const wide = kit.listed(x)
  const size = wide.shape.at(-1) as number
  const [first, rest] = kit.g.split(wide, [1, size - 1], { axis: -1 })
  return kit.coin() ? kit.g.mul(first!, rest!) : kit.pick(first!, rest!)
}

const range: Specimen = (kit, x) => {
  const { g } = kit
  const start = kit.parameter([])
  const delta = kit.positive(kit.parameter([]))
  return g.add(g.range(start, g.add(start, g.mul(delta, 3.5)), delta, 4), g.reduceMean(x))
}

const argMax: Specimen = (kit, x) => {
  const { g } = kit
  const wide = kit.listed(x)
  const best = g.cast(g.argMax(wide, { keepDims: true }), 'int32')
  return g.mul(wide, g.cast(g.equal(g.iota(wide.shape.at(-1)!), best), kit.dtype))
}

const topK: Specimen = (kit, x) => {
  const wide = kit.listed(x)
  return kit.g.topK(wide, 1 + kit.below(2), { largest: kit.coin() }).values
}

const gatherRows: Specimen = (kit, x) => {
  const wide = kit.atLeast(x, 1)
  const axis = kit.axis(wide)
  const shape = kit.pick<Shape>([], [3], [2, 2])
  return kit.g.gather(wide, kit.indices(shape, kit.size(wide.shape[axis]!)), { axis })
}

const gatherElements: Specimen = (kit, x) => {
  const wide = kit.atLeast(x, 1)
  const axis = kit.axis(wide)
  return kit.g.gatherElements(wide, kit.indices(wide.shape.with(axis, 3), kit.size(wide.shape[axis]!)), { axis })
}

/** int32 coordinates [..., depth] into axes of the given sizes. */
function coordinates(kit: Kit, grid: Shape, sizes: Shape): Value {
  const columns = sizes.map((dim) => kit.indices([...grid, 1], kit.size(dim)))
  return columns.length === 1 ? columns[0]! : kit.g.concat(columns, { axis: -1 })
}

const gatherND: Specimen = (kit, x) => {
  const wide = kit.atLeast(x, 2)
  const batchDims = kit.below(2)
  const depth = 1 + kit.below(wide.shape.length - batchDims)
  const grid = [...wide.shape.slice(0, batchDims), 3]
  const at = coordinates(kit, grid, wide.shape.slice(batchDims, batchDims + depth))
  return kit.g.gatherND(wide, at, { batchDims })
}

/** Overwriting with repeated positions depends on an order, so then there is one position. */
const scatterElements: Specimen = (kit, x) => {
  const wide = kit.atLeast(x, 1)
  const axis = kit.axis(wide)
  const reductionMode = kit.pick('none', 'add')
  const shape = wide.shape.with(axis, reductionMode === 'add' ? 3 : 1)
  const at = kit.indices(shape, kit.size(wide.shape[axis]!))
  return kit.g.scatterElements(wide, at, kit.parameter(shape), { axis, reduction: reductionMode })
}

const scatterND: Specimen = (kit, x) => {
  const wide = kit.atLeast(x, 2)
  const depth = 1 + kit.below(wide.shape.length)
  const reductionMode = kit.pick('none', 'add')
  const grid = [reductionMode === 'add' ? 3 : 1]
  const at = coordinates(kit, grid, wide.shape.slice(0, depth))
  const updates = kit.parameter([...grid, ...wide.shape.slice(depth)])
  return kit.g.scatterND(wide, at, updates, { reduction: reductionMode })
}

export const tensorZoo: Readonly<Record<keyof typeof reduce | keyof typeof shape | keyof typeof gather, Specimen>> = {
  ReduceSum: reduction('reduceSum'),
  ReduceMean: reduction('reduceMean'),
  ReduceMax: reduction('reduceMax'),
  ReduceSumSquare: reduction('reduceSumSquare'),
  CumSum: (kit, x) => {
    const wide = kit.atLeast(x, 1)
    return kit.g.cumSum(wide, { axis: kit.axis(wide), exclusive: kit.coin(), reverse: kit.coin() })
  },
  TopK: topK,
  ArgMax: argMax,
  Reshape: reshape,
  Expand: expand,
  Transpose: (kit, x) => kit.g.transpose(x, shuffled(kit, x.shape.length)),
  Slice: slice,
  Concat: concat,
  Split: split,
  Unsqueeze: (kit, x) => kit.g.unsqueeze(x, kit.pick([0], [-1], [0, 1])),
  Squeeze: (kit, x) => kit.g.squeeze(kit.g.unsqueeze(x, [0, -1]), kit.pick([0], [-1], [0, -1])),
  Trilu: (kit, x) => kit.g.trilu(kit.atLeast(x, 2), { upper: kit.coin(), k: kit.pick(-1, 0, 1) }),
  Range: range,
  Tile: (kit, x) =>
    kit.g.tile(
      x,
      x.shape.map(() => 1 + kit.below(2)),
    ),
  Gather: gatherRows,
  GatherElements: gatherElements,
  GatherND: gatherND,
  ScatterElements: scatterElements,
  ScatterND: scatterND,
}
