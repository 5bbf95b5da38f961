import { sameShape, type OpName, type Value } from '../../graph/index.js'
import { productTo, sumTo } from '../broadcast.js'
import { notDifferentiable, type RuleSite, type RuleTable } from '../rule.js'
import type { elementwise } from '../../graph/ops/elementwise.js'

/** A rule of a one-input op, from the gradient times a slope of the input's shape. */
export const slope =
  <N extends OpName>(of: (site: RuleSite<N>, x: Value, y: Value) => Value) =>
  (site: RuleSite<N>) => [() => site.g.mul(site.compact(), of(site, site.input(0), site.outputs[0]!))]

/** The gradient handed to an operand of an addition. */
function passed<N extends OpName>(site: RuleSite<N>, index: number): Value {
  const { shape } = site.input(index)
  return sameShape(shape, site.outputs[0]!.shape) ? site.compact() : sumTo(site.grad(), shape)
}

function times<N extends OpName>(site: RuleSite<N>, factor: Value, index: number): Value {
  return productTo(site.compact(), factor, site.input(index).shape, site.outputs[0]!.shape, site.grad)
}

/** The one number of a constant, if it is one. */
function constantOf(value: Value): number | undefined {
  if (!value.bytes || value.shape.some((dim) => dim !== 1)) return undefined
  const view = new DataView(value.bytes.buffer, value.bytes.byteOffset)
  if (value.dtype === 'float32') return view.getFloat32(0, true)
  return value.dtype === 'float64' ? view.getFloat64(0, true) : undefined
}

/** The gradient goes to the smaller (Min) or larger (Max) operand; of equals, to the first. */
const choose = (compare: 'lessOrEqual' | 'greaterOrEqual') => (site: RuleSite<'Min' | 'Max'>) => {
  const { g } = site
  const first = () => g[compare](site.input(0), site.input(1))
  return [
    () => sumTo(g.where(first(), site.compact(), 0), site.input(0).shape),
    () => sumTo(g.where(first(), 0, site.compact()), site.input(1).shape),
  ]
}

export const elementwiseRules: RuleTable<keyof typeof elementwise> = {
  Add: (site) => [() => passed(site, 0), () => passed(site, 1)],
  Sub: (site) => [() => passed(site, 0), () => site.g.neg(passed(site, 1))],
  Mul: (site) => {
    const [a, b] = [site.input(0), site.input(1)]
    if (a === b) return [() => site.g.mul(site.compact(), site.g.mul(a, 2))]
    return [() => times(site, b, 0), () => times(site, a, 1)]
  },
  // y = a / b: da = dy / b, db = -y * da
  Div: (site) => {
    const { g } = site
    const y = site.outputs[0]!
    const quotient = () => {
      const small = g.div(site.compact(), site.input(1))
      return sameShape(small.shape, y.shape) ? small : g.div(site.grad(), site.input(1))
    }
    return [() => sumTo(quotient(), site.input(0).shape), () => g.neg(sumTo(g.mul(quotient(), y), site.input(1).shape))]
  },
  // y = a^b: da = dy * b * a^(b-1), db = dy * y * log(a), which asks for a > 0
  Pow: (site) => {
    const { g } = site
    const [a, b] = [site.input(0), site.input(1)]
    const exponent = constantOf(b)
    const power = () => {
      if (exponent === undefined) return g.mul(b, g.pow(a, g.sub(b, 1)))
      return g.mul(exponent === 2 ? a : g.pow(a, exponent - 1), exponent)
    }
    return [() => times(site, power(), 0), () => sumTo(g.mul(g.mul(site.grad(), site.outputs[0]!), g.log(a)), b.shape)]
  },
  Min: choose('lessOrEqual'),
  Max: choose('greaterOrEqual'),
  Neg: (site) => [() => site.g.neg(site.compact())],
  // At 0 the gradient is 0.
  Abs: (site) => [
    () => {
      const { g } = site
      const x = site.input(0)
      const gradient = site.compact()
      return g.where(g.greater(x, 0), gradient, g.where(g.less(x, 0), g.neg(gradient), 0))
    },
  ],
  Exp: slope((_, __, y) => y),
  Log: (site) => [() => site.g.div(site.compact(), site.input(0))],
  Sqrt: (site) => [() => site.g.div(site.g.mul(site.compact(), 0.5), site.outputs[0]!)],
  Reciprocal: slope(({ g }, _, y) => g.neg(g.mul(y, y))),
  Sin: slope(({ g }, x) => g.cos(x)),
  Cos: slope(({ g }, x) => g.neg(g.sin(x))),
  Floor: notDifferentiable('its slope is zero'),
  // At a bound the gradient passes.
  Clip: (site) => [
    () => {
      const { g } = site
      const x = site.input(0)
      const { min, max } = site.params
      const above = min === undefined ? undefined : g.greaterOrEqual(x, min)
      const below = max === undefined ? undefined : g.lessOrEqual(x, max)
      return g.where(above && below ? g.and(above, below) : (above ?? below)!, site.compact(), 0)
    },
  ],
  Cast: (site) => [() => site.g.cast(site.compact(), site.input(0).dtype)],
  Identity: (site) => [() => site.compact()],
}
