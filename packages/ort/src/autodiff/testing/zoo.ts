/** One specimen of each op: a smooth enough function of x that uses it in random ways. */
import { type OpName, type Value } from '../../graph/index.js'
import { erfSeries, type Kit } from './kit.js'
import { tensorZoo } from './zoo-tensor.js'

export type Specimen = (kit: Kit, x: Value) => Value

const gemm: Specimen = (kit, x) => {
  const { g } = kit
  const wide = kit.listed(x, 2)
  const a = g.reshape(wide, [-1, wide.shape.at(-1)!])
  const transA = kit.coin()
  const transB = kit.coin()
  const [rows, inner] = transA ? a.shape.toReversed() : a.shape
  const columns = 1 + kit.below(3)
  const b = kit.parameter(transB ? [columns, inner!] : [inner!, columns])
  const options = { transA, transB, alpha: kit.pick(1, 0.5), beta: kit.pick(1, 2) }
  const bias = kit.pick<readonly (string | number)[] | undefined>(undefined, [columns], [1, columns], [rows!, 1], [])
  const c = bias && kit.parameter(bias)
  return g.gemm(a, b, c, options)
}

const matMul: Specimen = (kit, x) => {
  const { g } = kit
  const a = kit.listed(x, 2 + kit.below(2))
  const inner = a.shape.at(-1)!
  switch (kit.below(3)) {
    case 0:
      return g.matmul(a, kit.parameter([inner, 2]))
    case 1: {
      const batch = a.shape.slice(0, -2).map((dim) => (kit.coin() ? 1 : dim))
      return g.matmul(a, kit.parameter([3, ...batch, inner, 2].slice(kit.below(2))))
    }
    default:
      return g.matmul(kit.parameter([2, a.shape.at(-2)!]), a)
  }
}

const quickGelu: Specimen = (kit, x) => {
  const alpha = kit.pick(1, 1.702)
  if (!kit.isDouble) return kit.g.quickGelu(x, { alpha })
  // Not x * sigmoid(alpha x): onnxruntime fuses that into a QuickGelu that it has no double kernel for.
  return kit.g.div(x, kit.g.add(kit.g.exp(kit.g.mul(x, -alpha)), 1))
}

const gelu: Specimen = (kit, x) => {
  const { g } = kit
  const small = g.clip(x, { min: -4, max: 4 })
  const approximate = kit.pick('none', 'tanh')
  if (!kit.isDouble) return g.gelu(small, { approximate })
  const cubic = g.mul(g.add(small, g.mul(g.pow(small, 3), 0.044715)), Math.sqrt(2 / Math.PI))
  const bend = approximate === 'tanh' ? g.tanh(cubic) : erfSeries(g, g.mul(small, Math.SQRT1_2))
  return g.mul(g.mul(small, 0.5), g.add(bend, 1))
}

const rotary: Specimen = (kit, x) => {
  const { g } = kit
  const [batch, heads, seq, head] = [2, 2, 3, 4]
  const is4D = kit.coin()
  const shape = is4D ? [batch, heads, seq, head] : [batch, seq, heads * head]
  const whole = g.add(kit.parameter(shape), g.reduceMean(x))
  const [cos, sin] = [kit.constant([5, head / 2]), kit.constant([5, head / 2])]
  const positions = kit.indices([batch, seq], 5)
  if (!kit.isDouble) return g.rotaryEmbedding(whole, positions, cos, sin, { numHeads: is4D ? 0 : heads })
  const byHead = is4D ? whole : g.transpose(g.reshape(whole, [batch, seq, heads, head]), [0, 2, 1, 3])
  const [a, b] = g.split(byHead, [head / 2, head / 2], { axis: -1 })
  const [c, s] = [cos, sin].map((table) => g.unsqueeze(g.gather(table, positions), [1]))
  const turned = g.concat([g.sub(g.mul(a!, c!), g.mul(b!, s!)), g.add(g.mul(b!, c!), g.mul(a!, s!))], { axis: -1 })
  return is4D ? turned : g.reshape(g.transpose(turned, [0, 2, 1, 3]), shape)
}

function normalised(kit: Kit, x: Value): { wide: Value; axis: number; scale: () => Value } {
  const wide = kit.listed(x, 2)
  const axis = kit.below(3) === 0 ? 0 : wide.shape.length - 1
  const shape = wide.shape.slice(kit.coin() ? axis : -1)
  return { wide, axis, scale: () => kit.parameter(shape) }
}

/** Null: no gradient to test. */
const zoo: Readonly<Record<OpName, Specimen | null>> = {
  Add: (kit, x) => kit.g.add(x, kit.mate(x)),
  Sub: (kit, x) => (kit.coin() ? kit.g.sub(x, kit.mate(x)) : kit.g.sub(kit.mate(x), x)),
  Mul: (kit, x) => (kit.below(4) === 0 ? kit.g.mul(x, x) : kit.g.mul(x, kit.mate(x))),
  Div: (kit, x) => (kit.coin() ? kit.g.div(x, kit.positive(kit.mate(x))) : kit.g.div(kit.mate(x), kit.positive(x))),
  Pow: (kit, x) =>
    kit.coin() ? kit.g.pow(kit.positive(x), kit.g.tanh(kit.mate(x))) : kit.g.pow(kit.g.tanh(x), kit.pick(1, 2, 3)),
  Min: (kit, x) => kit.g.min(x, kit.mate(x)),
  Max: (kit, x) => kit.g.max(kit.mate(x), x),
  Neg: (kit, x) => kit.g.neg(x),
  Abs: (kit, x) => kit.g.abs(x),
  Exp: (kit, x) => kit.g.exp(kit.g.tanh(x)),
  Log: (kit, x) => kit.g.log(kit.positive(x)),
  Sqrt: (kit, x) => kit.g.sqrt(kit.positive(x)),
  Reciprocal: (kit, x) => kit.g.reciprocal(kit.positive(x)),
  Sin: (kit, x) => kit.g.sin(x),
  Cos: (kit, x) => kit.g.cos(x),
  Floor: (kit, x) => kit.g.add(kit.g.floor(kit.g.mul(x, 1.7)), x),
  Clip: (kit, x) => kit.g.clip(x, kit.pick({ min: -0.3, max: 0.4 }, { min: -0.5 }, { max: 0.5 })),
  Cast: (kit, x) => {
    const there = kit.isDouble ? x : kit.g.cast(kit.g.cast(x, 'float64'), 'float32')
    return kit.g.add(there, kit.g.cast(kit.g.cast(kit.g.mul(x, 2), 'int32'), kit.dtype))
  },
  Identity: (kit, x) => kit.g.identity(x),
  Tanh: (kit, x) => kit.g.tanh(x),
  Sigmoid: (kit, x) => kit.g.sigmoid(x),
  Erf: (kit, x) => {
    const small = kit.g.clip(x, { min: -4, max: 4 })
    return kit.isDouble ? erfSeries(kit.g, small) : kit.g.erf(small)
  },
  Relu: (kit, x) => kit.g.relu(x),
  Softplus: (kit, x) => (kit.isDouble ? kit.g.log(kit.g.add(kit.g.exp(x), 1)) : kit.g.softplus(x)),
  Gelu: gelu,
  QuickGelu: quickGelu,
  Softmax: (kit, x) => {
    const wide = kit.atLeast(x, 1)
    return kit.g.softmax(wide, { axis: kit.axis(wide) })
  },
  Equal: (kit, x) => {
    const whole = kit.g.cast(kit.g.mul(x, 2), 'int32')
    return kit.g.where(kit.g.equal(whole, 0), x, kit.g.mul(x, x))
  },
  Less: (kit, x) => kit.g.where(kit.g.less(x, 0.2), x, kit.mate(x)),
  Greater: (kit, x) => kit.g.where(kit.g.greater(x, kit.mate(x)), x, 0),
  LessOrEqual: (kit, x) => kit.g.where(kit.g.lessOrEqual(kit.mate(x), x), 1, kit.g.mul(x, x)),
  GreaterOrEqual: (kit, x) => kit.g.where(kit.g.greaterOrEqual(x, 0), kit.g.mul(x, 3), x),
  And: (kit, x) => kit.g.where(kit.g.and(kit.g.less(x, 0.7), kit.g.greater(x, -0.7)), kit.g.mul(x, x), x),
  Not: (kit, x) => kit.g.where(kit.g.not(kit.g.less(x, 0)), x, kit.g.mul(x, 0.1)),
  Where: (kit, x) => kit.g.where(kit.g.less(kit.mate(x), kit.mate(x)), kit.mate(x), x),
  MatMul: matMul,
  Gemm: gemm,
  ...tensorZoo,
  LayerNormalization: (kit, x) => {
    const { wide, axis, scale } = normalised(kit, x)
    return kit.g.layerNorm(wide, scale(), kit.coin() ? scale() : undefined, { axis, epsilon: 1e-2 })
  },
  SimplifiedLayerNormalization: (kit, x) => {
    const wide = kit.listed(x, 2)
    return kit.g.rmsNorm(wide, kit.parameter([wide.shape.at(-1)!]), { epsilon: 1e-2 })
  },
  RotaryEmbedding: rotary,
  GroupQueryAttention: null,
}

export const specimens = Object.entries(zoo).filter((entry): entry is [OpName, Specimen] => entry[1] !== null)
