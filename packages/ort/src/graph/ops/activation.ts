import { floats } from '../dtypes.js'
import { float, int, type Op, string } from '../ir.js'
import { checkAxis, like, unary } from './inference.js'

export interface GeluParams {
  /** `none`: with erf. `tanh`: the cubic approximation. */
  readonly approximate: 'none' | 'tanh'
}
export interface QuickGeluParams {
  /** x * sigmoid(alpha * x); 1 is SiLU. */
  readonly alpha: number
}
export interface SoftmaxParams {
  readonly axis: number
}

const gelu: Op<GeluParams> = {
  ...unary(20, floats),
  infer: like(),
  lower: (inputs, { approximate }) => ({ inputs, attributes: { approximate: string(approximate) } }),
}

const quickGelu: Op<QuickGeluParams> = {
  ...unary(1, floats),
  domain: 'com.microsoft',
  infer: like(),
  lower: (inputs, { alpha }) => ({ inputs, attributes: { alpha: float(alpha) } }),
}

const softmax: Op<SoftmaxParams> = {
  ...unary(13, floats),
  infer: (site) => {
    checkAxis(site, site.params.axis, site.input(0).shape.length)
    return like<SoftmaxParams>()(site)
  },
  lower: (inputs, { axis }) => ({ inputs, attributes: { axis: int(axis) } }),
}

export const activation = {
  Tanh: unary(13, floats),
  Sigmoid: unary(13, floats),
  Erf: unary(13, floats),
  Relu: unary(14, floats),
  Softplus: unary(1, floats),
  Gelu: gelu,
  QuickGelu: quickGelu,
  Softmax: softmax,
} satisfies Record<string, Op<never>>
