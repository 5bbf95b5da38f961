import type { Value } from '../ir.js'
import { noParams } from '../ops/inference.js'
import type { OpName } from '../ops/index.js'
import type { DType } from '../types.js'
import { GraphCore, type ValueLike } from './core.js'

type Binary =
  | 'Add'
  | 'Sub'
  | 'Mul'
  | 'Div'
  | 'Pow'
  | 'Min'
  | 'Max'
  | 'Equal'
  | 'Less'
  | 'Greater'
  | 'LessOrEqual'
  | 'GreaterOrEqual'
  | 'And'
type Unary =
  | 'Neg'
  | 'Abs'
  | 'Exp'
  | 'Log'
  | 'Sqrt'
  | 'Reciprocal'
  | 'Sin'
  | 'Cos'
  | 'Floor'
  | 'Tanh'
  | 'Sigmoid'
  | 'Erf'
  | 'Relu'
  | 'Softplus'
  | 'Not'

/** Ops that work number by number, with numpy broadcasting. */
export abstract class ElementwiseBuilder extends GraphCore {
  private binary(op: Binary & OpName, a: ValueLike, b: ValueLike): Value {
    return this.one(op, this.pair(a, b), noParams)
  }
  private unary(op: Unary & OpName, x: Value): Value {
    return this.one(op, [x], noParams)
  }

  add(a: ValueLike, b: ValueLike): Value {
    return this.binary('Add', a, b)
  }
  sub(a: ValueLike, b: ValueLike): Value {
    return this.binary('Sub', a, b)
  }
  mul(a: ValueLike, b: ValueLike): Value {
    return this.binary('Mul', a, b)
  }
  div(a: ValueLike, b: ValueLike): Value {
    return this.binary('Div', a, b)
  }
  pow(a: ValueLike, b: ValueLike): Value {
    return this.binary('Pow', a, b)
  }
  min(a: ValueLike, b: ValueLike): Value {
    return this.binary('Min', a, b)
  }
  max(a: ValueLike, b: ValueLike): Value {
    return this.binary('Max', a, b)
  }
  equal(a: ValueLike, b: ValueLike): Value {
    return this.binary('Equal', a, b)
  }
  less(a: ValueLike, b: ValueLike): Value {
    return this.binary('Less', a, b)
  }
  greater(a: ValueLike, b: ValueLike): Value {
    return this.binary('Greater', a, b)
  }
  lessOrEqual(a: ValueLike, b: ValueLike): Value {
    return this.binary('LessOrEqual', a, b)
  }
  greaterOrEqual(a: ValueLike, b: ValueLike): Value {
    return this.binary('GreaterOrEqual', a, b)
  }
  and(a: Value, b: Value): Value {
    return this.binary('And', a, b)
  }
  not(x: Value): Value {
    return this.unary('Not', x)
  }
  neg(x: Value): Value {
    return this.unary('Neg', x)
  }
  abs(x: Value): Value {
    return this.unary('Abs', x)
  }
  exp(x: Value): Value {
    return this.unary('Exp', x)
  }
  log(x: Value): Value {
    return this.unary('Log', x)
  }
  sqrt(x: Value): Value {
    return this.unary('Sqrt', x)
  }
  /** 1 / x */
  reciprocal(x: Value): Value {
    return this.unary('Reciprocal', x)
  }
  sin(x: Value): Value {
    return this.unary('Sin', x)
  }
  cos(x: Value): Value {
    return this.unary('Cos', x)
  }
  floor(x: Value): Value {
    return this.unary('Floor', x)
  }
  tanh(x: Value): Value {
    return this.unary('Tanh', x)
  }
  sigmoid(x: Value): Value {
    return this.unary('Sigmoid', x)
  }
  erf(x: Value): Value {
    return this.unary('Erf', x)
  }
  relu(x: Value): Value {
    return this.unary('Relu', x)
  }
  /** log(1 + exp(x)) */
  softplus(x: Value): Value {
    return this.unary('Softplus', x)
  }
  square(x: Value): Value {
    return this.mul(x, x)
  }

  /** Bounds are numbers; for tensors use `min` and `max`. */
  clip(x: Value, { min, max }: { readonly min?: number; readonly max?: number }): Value {
    return this.one('Clip', [x], { min, max })
  }
  /** The same value where it has the dtype already. */
  cast(x: Value, to: DType): Value {
    return x.dtype === to ? x : this.one('Cast', [x], { to })
  }
  identity(x: Value): Value {
    return this.one('Identity', [x], { stopGradient: false })
  }
  /** x, as a constant to differentiation. */
  stopGradient(x: Value): Value {
    return this.one('Identity', [x], { stopGradient: true })
  }
  /** `then` where the condition holds, else `otherwise`. */
  where(condition: Value, then: ValueLike, otherwise: ValueLike): Value {
    return this.one('Where', [condition, ...this.pair(then, otherwise)], noParams)
  }

  /** x * 0.5 * (1 + erf(x / sqrt(2))), or its tanh approximation. */
  gelu(x: Value, { approximate = 'none' }: { readonly approximate?: 'none' | 'tanh' } = {}): Value {
    return this.one('Gelu', [x], { approximate })
  }
  /** x * sigmoid(alpha * x). */
  quickGelu(x: Value, { alpha = 1.702 }: { readonly alpha?: number } = {}): Value {
    return this.one('QuickGelu', [x], { alpha })
  }
  /** x * sigmoid(x). */
  silu(x: Value): Value {
    return this.quickGelu(x, { alpha: 1 })
  }
}
