import { multiplyDims, type Value } from '../../graph/index.js'
import type { matmul } from '../../graph/ops/matmul.js'
import { sumTo } from '../broadcast.js'
import type { RuleTable } from '../rule.js'

/** All axes but the last as one. */
function asMatrix(value: Value): Value {
  return value.graph.reshape(value, [multiplyDims(...value.shape.slice(0, -1)), value.shape.at(-1)!])
}

export const matmulRules: RuleTable<keyof typeof matmul> = {
  MatMul: (site) => {
    const { g } = site
    const [a, b] = [site.input(0), site.input(1)]
    if (b.shape.length === 2) {
      return [
        () => g.reshape(g.gemm(asMatrix(site.grad()), b, undefined, { transB: true }), a.shape),
        () => g.gemm(asMatrix(a), asMatrix(site.grad()), undefined, { transA: true }),
      ]
    }
    return [
      () => sumTo(g.matmul(site.grad(), g.transposeLast(b)), a.shape),
      () => sumTo(g.matmul(g.transposeLast(a), site.grad()), b.shape),
    ]
  },
  Gemm: (site) => {
    const { g } = site
    const [a, b] = [site.input(0), site.input(1)]
    const { alpha, beta, transA, transB } = site.params
    return [
      () =>
        transA
          ? g.gemm(b, site.grad(), undefined, { alpha, transA: transB, transB: true })
          : g.gemm(site.grad(), b, undefined, { alpha, transB: !transB }),
      () =>
        transB
          ? g.gemm(site.grad(), a, undefined, { alpha, transA: true, transB: transA })
          : g.gemm(a, site.grad(), undefined, { alpha, transA: !transA }),
      () => {
        const sum = sumTo(site.grad(), site.input(2).shape)
        return beta === 1 ? sum : g.mul(sum, beta)
      },
    ]
  },
}
