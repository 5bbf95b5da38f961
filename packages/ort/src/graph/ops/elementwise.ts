import { anything, floats, numbers, onnxDataType } from '../dtypes.js'
import { int, type Op, scalar } from '../ir.js'
import type { DType } from '../types.js'
import { binary, like, unary } from './inference.js'

export interface ClipParams {
  readonly min: number | undefined
  readonly max: number | undefined
}
export interface CastParams {
  readonly to: DType
}
export interface IdentityParams {
  /** Gradients end here. */
  readonly stopGradient: boolean
}

const clip: Op<ClipParams> = {
  domain: '',
  since: 13,
  inputTypes: ['T'],
  outputTypes: ['T'],
  types: { T: numbers },
  infer: (site) => {
    const { min, max } = site.params
    if (min === undefined && max === undefined) site.fail('min or max must be given')
    if (min !== undefined && max !== undefined && min > max) site.fail(`min ${min} is above max ${max}`)
    return like<ClipParams>()(site)
  },
  lower: ([x], { min, max }) => ({
    inputs: [
      x,
      min === undefined ? undefined : scalar(min, x!.dtype),
      ...(max === undefined ? [] : [scalar(max, x!.dtype)]),
    ],
    attributes: {},
  }),
}

const cast: Op<CastParams> = {
  domain: '',
  since: 21,
  inputTypes: ['T1'],
  outputTypes: ['T2'],
  types: { T1: anything, T2: anything },
  infer: (site) => like<CastParams>(site.params.to)(site),
  lower: (inputs, { to }) => ({ inputs, attributes: { to: int(onnxDataType[to]) } }),
}

export const elementwise = {
  Add: binary(14, numbers),
  Sub: binary(14, numbers),
  Mul: binary(14, numbers),
  Div: binary(14, numbers),
  Pow: binary(15, floats),
  Min: binary(13, numbers),
  Max: binary(13, numbers),
  Neg: unary(13, numbers),
  Abs: unary(13, numbers),
  Exp: unary(13, floats),
  Log: unary(13, floats),
  Sqrt: unary(13, floats),
  Reciprocal: unary(13, floats),
  Sin: unary(7, floats),
  Cos: unary(7, floats),
  Floor: unary(13, floats),
  Clip: clip,
  Cast: cast,
  Identity: { ...unary(21, anything, 'V'), infer: like() } as Op<IdentityParams>,
} satisfies Record<string, Op<never>>
