import { multiplyDims, type Value } from '../../graph/index.js'
import type { normalisation } from '../../graph/ops/normalisation.js'
import { sumTo } from '../broadcast.js'
import { refuse, type RuleSite, type RuleTable } from '../rule.js'

type Norm = 'LayerNormalization' | 'SimplifiedLayerNormalization'

/** The axes that are normalised together. */
function axesOf(site: RuleSite<Norm>): readonly number[] {
  return [...site.input(0).shape.keys()].slice(site.params.axis)
}

/** Saved statistics in the input's dtype. */
function statistic(site: RuleSite<Norm>, index: number): Value {
  return site.g.cast(site.outputs[index]!, site.input(0).dtype)
}

function onlyResult(site: RuleSite<Norm>): void {
  if (site.outputs.slice(1).some((_, i) => site.maybeGrad(i + 1))) {
    refuse(site.node.op, 'the saved statistics have no gradient; compute them with reductions instead')
  }
}

/** With n = (x - mean) / std and h = dy * scale: dx = (h - mean(h) - n * mean(h * n)) / std. */
function layerNorm(site: RuleSite<'LayerNormalization'>) {
  onlyResult(site)
  const { g } = site
  const [x, scale, bias] = [site.input(0), site.input(1), site.node.inputs[2]]
  const axes = axesOf(site)
  const inverse = statistic(site, 2)
  const normalised = g.mul(g.sub(x, statistic(site, 1)), inverse)
  const gradient = site.grad()
  return [
    () => {
      const h = g.mul(gradient, scale)
      const mean = g.reduceMean(h, { axes, keepDims: true })
      const share = g.reduceMean(g.mul(h, normalised), { axes, keepDims: true })
      return g.mul(g.sub(g.sub(h, mean), g.mul(normalised, share)), inverse)
    },
    () => sumTo(g.mul(gradient, normalised), scale.shape),
    () => sumTo(gradient, bias!.shape),
  ]
}

/**
 * With r = 1 / sqrt(mean(x^2) + epsilon) saved by the forward op and size n of a row:
 * dx = dy * scale * r - x * r^3 * sum(dy * x * scale) / n, dscale = sum over rows of r * dy * x.
 * Both sums are products with a vector, so nothing but dy * x is as large as x.
 */
function simplifiedLayerNorm(site: RuleSite<'SimplifiedLayerNormalization'>) {
  onlyResult(site)
  const { g } = site
  const [x, scale] = [site.input(0), site.input(1)]
  const size = x.shape.at(-1)!
  const rows = multiplyDims(...x.shape.slice(0, -1))
  const gradient = site.grad()
  const r = statistic(site, 1)
  const product = g.reshape(g.mul(gradient, x), [rows, size])
  return [
    () => {
      const column = g.div(g.reshape(g.expand(scale, [size]), [size, 1]), g.count([size], x.dtype))
      const share = g.reshape(g.matmul(product, column), r.shape)
      return g.sub(g.mul(g.mul(gradient, scale), r), g.mul(x, g.mul(share, g.mul(r, g.mul(r, r)))))
    },
    () => sumTo(g.reshape(g.matmul(g.reshape(r, [1, rows]), product), [size]), scale.shape),
  ]
}

export const normalisationRules: RuleTable<keyof typeof normalisation> = {
  LayerNormalization: layerNorm,
  SimplifiedLayerNormalization: simplifiedLayerNorm,
}
