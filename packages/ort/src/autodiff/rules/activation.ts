import type { activation } from '../../graph/ops/activation.js'
import type { Graph, Value } from '../../graph/index.js'
import type { RuleTable } from '../rule.js'
import { slope } from './elementwise.js'

/** Slope of x * 0.5 * (1 + erf(x / sqrt(2))): the normal distribution function plus x times its density. */
function geluSlope(g: Graph, x: Value): Value {
  const distribution = g.add(g.mul(g.erf(g.mul(x, Math.SQRT1_2)), 0.5), 0.5)
  const density = g.mul(g.exp(g.mul(g.mul(x, x), -0.5)), 1 / Math.sqrt(2 * Math.PI))
  return g.add(distribution, g.mul(x, density))
}

/** Slope of x * 0.5 * (1 + tanh(u)), u = sqrt(2 / pi) * (x + 0.044715 * x^3). */
function geluTanhSlope(g: Graph, x: Value): Value {
  const c = Math.sqrt(2 / Math.PI)
  const square = g.mul(x, x)
  const t = g.tanh(g.mul(x, g.add(g.mul(square, c * 0.044715), c)))
  const inner = g.mul(x, g.add(g.mul(square, 3 * c * 0.044715), c))
  const curve = g.mul(inner, g.sub(1, g.mul(t, t)))
  return g.mul(g.add(g.add(t, curve), 1), 0.5)
}

export const activationRules: RuleTable<keyof typeof activation> = {
  Tanh: slope(({ g }, _, y) => g.sub(1, g.mul(y, y))),
  Sigmoid: slope(({ g }, _, y) => g.mul(y, g.sub(1, y))),
  Erf: slope(({ g }, x) => g.mul(g.exp(g.neg(g.mul(x, x))), 2 / Math.sqrt(Math.PI))),
  Relu: (site) => [() => site.g.where(site.g.greater(site.outputs[0]!, 0), site.compact(), 0)],
  Softplus: slope(({ g }, x) => g.sigmoid(x)),
  Gelu: slope(({ g, params }, x) => (params.approximate === 'tanh' ? geluTanhSlope(g, x) : geluSlope(g, x))),
  // y = x s, s = sigmoid(alpha x): dy/dx = s + alpha y (1 - s)
  QuickGelu: slope(({ g, params: { alpha } }, x, y) => {
    const s = g.sigmoid(alpha === 1 ? x : g.mul(x, alpha))
    const rest = g.mul(alpha === 1 ? y : g.mul(y, alpha), g.sub(1, s))
    return g.add(s, rest)
  }),
  // dx = y (dy - sum(dy y))
  Softmax: (site) => [
    () => {
      const { g } = site
      const y = site.outputs[0]!
      const gradient = site.compact()
      const mean = g.reduceSum(g.mul(gradient, y), { axes: [site.params.axis], keepDims: true })
      return g.mul(g.sub(gradient, mean), y)
    },
  ],
}
