import type { Graph, OpName, Value } from '../../graph/index.js'
import type { gather } from '../../graph/ops/gather.js'
import type { AddInto, RuleSite, RuleTable } from '../rule.js'

/** Adds the gradient of picked rows to the rows. Other axes than the first are brought to the front and back. */
function addRows(site: RuleSite<'Gather'>): AddInto {
  const { g } = site
  const { axis } = site.params
  const [x, indices] = [site.input(0), site.input(1)]
  const coordinates = g.unsqueeze(indices, [-1])
  const reduction = 'add'
  if (axis === 0) {
    return { addInto: (base) => g.scatterND(base ?? zeros(g, x), coordinates, site.grad(), { reduction }) }
  }
  const toFront = [axis, ...x.shape.keys()].filter((one, i) => i === 0 || one !== axis)
  const picked = [...indices.shape.keys()].map((i) => i + axis)
  const gradient = site.grad()
  const others = [...gradient.shape.keys()].filter((one) => !picked.includes(one))
  const front = g.transpose(gradient, [...picked, ...others])
  const back = toFront.map((_, one) => toFront.indexOf(one))
  return {
    addInto: (base) => {
      const rows = g.scatterND(g.transpose(base ?? zeros(g, x), toFront), coordinates, front, { reduction })
      return g.transpose(rows, back)
    },
  }
}

function zeros(g: Graph, like: Value): Value {
  return g.zeros(like.shape, like.dtype)
}

/** Coordinates that name the batch axes too, as ScatterND wants them. */
function withBatch(site: RuleSite<'GatherND'>): Value {
  const { g } = site
  const { batchDims } = site.params
  const indices = site.input(1)
  if (batchDims === 0) return indices
  // int32 as long as possible: int64 tensors have no kernels on WebGPU.
  const { producer } = indices
  const source = producer?.op === 'Cast' && producer.inputs[0]!.dtype === 'int32' ? producer.inputs[0]! : indices
  const grid = indices.shape.slice(0, -1)
  const columns = Array.from({ length: batchDims }, (_, axis) => {
    const size = grid[axis]!
    const column = g.iota(size, source.dtype)
    const shape = [...grid.map((_dim, i) => (i === axis ? size : 1)), 1]
    return g.expand(g.reshape(column, shape), [...grid, 1])
  })
  return g.concat([...columns, source], { axis: -1 })
}

/** Of scattered updates: what stands where they went. Of overwritten data: nothing there. */
const scattered = <N extends OpName>(
  site: RuleSite<N>,
  reduction: 'none' | 'add',
  scatter: (into: Value, updates: Value) => Value,
  pick: (from: Value) => Value,
) => [
  () => (reduction === 'add' ? site.compact() : scatter(site.grad(), zeros(site.g, site.input(2)))),
  undefined,
  () => pick(site.grad()),
]

export const gatherRules: RuleTable<keyof typeof gather> = {
  Gather: (site) => [() => addRows(site), undefined],
  GatherElements: (site) => [
    () => ({
      addInto: (base) => {
        const { axis } = site.params
        const into = base ?? zeros(site.g, site.input(0))
        return site.g.scatterElements(into, site.input(1), site.grad(), { axis, reduction: 'add' })
      },
    }),
    undefined,
  ],
  GatherND: (site) => [
    () => ({
      addInto: (base) => {
        const into = base ?? zeros(site.g, site.input(0))
        return site.g.scatterND(into, withBatch(site), site.grad(), { reduction: 'add' })
      },
    }),
    undefined,
  ],
  ScatterElements: (site) => {
    const { axis, reduction } = site.params
    const indices = site.input(1)
    return scattered(
      site,
      reduction,
      (into, updates) => site.g.scatterElements(into, indices, updates, { axis }),
      (from) => site.g.gatherElements(from, indices, { axis }),
    )
  },
  ScatterND: (site) => {
    const indices = site.input(1)
    return scattered(
      site,
      site.params.reduction,
      (into, updates) => site.g.scatterND(into, indices, updates),
      (from) => site.g.gatherND(from, indices),
    )
  },
}
