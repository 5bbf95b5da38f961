import { sameDim } from '../dims.js'
import { floats, numbers } from '../dtypes.js'
import { float, int, type Op } from '../ir.js'
import { broadcastShapes, type NoParams } from './inference.js'

/** `alpha * op(A) op(B) + beta * C`, all matrices. */
export interface GemmParams {
  readonly alpha: number
  /** Legal without C, where it computes nothing: Gemms that differ in it are not merged as common subexpressions. */
  readonly beta: number
  readonly transA: boolean
  readonly transB: boolean
}

const matMul: Op<NoParams> = {
  domain: '',
  since: 13,
  inputTypes: ['T', 'T'],
  outputTypes: ['T'],
  types: { T: numbers },
  infer: (site) => {
    const a = site.input(0)
    const b = site.input(1)
    if (a.shape.length < 2 || b.shape.length < 2) site.fail('both inputs need at least two axes')
    if (!sameDim(a.shape.at(-1)!, b.shape.at(-2)!))
      site.fail('the last axis of the first must be the last but one of the second')
    const batch =
      broadcastShapes(a.shape.slice(0, -2), b.shape.slice(0, -2)) ?? site.fail('the batch axes do not broadcast')
    return [{ dtype: a.dtype, shape: [...batch, a.shape.at(-2)!, b.shape.at(-1)!] }]
  },
}

const gemm: Op<GemmParams> = {
  domain: '',
  since: 13,
  inputTypes: ['T', 'T', 'T'],
  outputTypes: ['T'],
  types: { T: floats },
  infer: (site) => {
    const { transA, transB } = site.params
    const a = site.input(0)
    const b = site.input(1)
    if (a.shape.length !== 2 || b.shape.length !== 2) site.fail('A and B must be matrices')
    const [rows, inner] = transA ? a.shape.toReversed() : a.shape
    const [innerB, columns] = transB ? b.shape.toReversed() : b.shape
    if (!sameDim(inner!, innerB!))
      site.fail(`the inner sizes of A${transA ? "'" : ''} and B${transB ? "'" : ''} differ`)
    const shape = [rows!, columns!]
    const c = site.inputs[2]
    if (c) {
      const fits = broadcastShapes(shape, c.shape)
      if (!fits || fits.length > 2 || fits.some((dim, axis) => !sameDim(dim, shape[axis]!))) {
        site.fail(`C must broadcast to [${shape.join(', ')}]`)
      }
    }
    return [{ dtype: a.dtype, shape }]
  },
  lower: (inputs, { alpha, beta, transA, transB }) => ({
    inputs,
    attributes: { alpha: float(alpha), beta: float(beta), transA: int(transA), transB: int(transB) },
  }),
}

export const matmul = { MatMul: matMul, Gemm: gemm } satisfies Record<string, Op<never>>
