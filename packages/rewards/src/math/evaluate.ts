import type { Expression, FunctionName } from './parse.js'
import {
  add,
  bits,
  equal,
  exactRoot,
  fromDecimal,
  isZero,
  multiply,
  negate,
  rational,
  toNumber,
  type Rational,
} from './rational.js'

/** A value: an exact fraction, or a double with a bound on its error. */
export type Value =
  { readonly exact: Rational } | { readonly exact?: undefined; readonly approx: number; readonly error: number }

/** Longest numerator or denominator that is kept, in bits. */
const MAX_BITS = 8192
const EPSILON = Number.EPSILON

/** An expression that has no value: a division by zero, a root of a negative number, or one too large. */
class Undefined extends Error {}

/** @returns undefined when the expression has no value there. Time is bounded: numbers of more than 8192 bits have none. */
export function evaluate(
  expression: Expression,
  variables: ReadonlyMap<string, Rational> = new Map(),
): Value | undefined {
  try {
    return valueOf(expression, variables)
  } catch (error) {
    if (error instanceof Undefined) return undefined
    throw error
  }
}

function exact(value: Rational): Value {
  if (bits(value) > MAX_BITS) throw new Undefined()
  return { exact: value }
}

function approximate(approx: number, error: number): Value {
  if (!Number.isFinite(approx) || !Number.isFinite(error)) throw new Undefined()
  return { approx, error: error + Math.abs(approx) * EPSILON }
}

/** A value as a double and a bound on its error. */
function approximation(value: Value): { readonly approx: number; readonly error: number } {
  if (!value.exact) return value
  const approx = toNumber(value.exact)
  return { approx, error: Math.abs(approx) * EPSILON }
}

function valueOf(expression: Expression, variables: ReadonlyMap<string, Rational>): Value {
  const of = (inner: Expression) => valueOf(inner, variables)
  switch (expression.type) {
    case 'number':
      return exact(fromDecimal(expression.numeral))
    case 'constant':
      return approximate(expression.name === 'pi' ? Math.PI : Math.E, 0)
    case 'variable': {
      const value = variables.get(expression.name)
      if (!value) throw new Undefined()
      return exact(value)
    }
    case 'group':
      return of(expression.of)
    case 'negate':
      return minus(of(expression.of))
    case 'percent':
      return times(of(expression.of), exact(rational(1n, 100n)))
    case 'factorial':
      return factorial(of(expression.of))
    case 'mixed':
      return plus(of(expression.whole), of(expression.fraction))
    case 'root':
      return root(of(expression.of), of(expression.index))
    case 'call':
      return call(expression.name, of(expression.of))
    case 'binary': {
      const [left, right] = [of(expression.left), of(expression.right)]
      switch (expression.op) {
        case '+':
          return plus(left, right)
        case '-':
          return plus(left, minus(right))
        case '*':
          return times(left, right)
        case '/':
          return times(left, inverse(right))
        case '^':
          return power(left, right)
      }
    }
  }
}

const minus = (a: Value): Value => (a.exact ? { exact: negate(a.exact) } : { approx: -a.approx, error: a.error })

function plus(a: Value, b: Value): Value {
  if (a.exact && b.exact) return exact(add(a.exact, b.exact))
  const [x, y] = [approximation(a), approximation(b)]
  return approximate(x.approx + y.approx, x.error + y.error)
}

function times(a: Value, b: Value): Value {
  if (a.exact && b.exact) return exact(multiply(a.exact, b.exact))
  if ((a.exact && isZero(a.exact)) || (b.exact && isZero(b.exact))) return exact(rational(0n))
  const [x, y] = [approximation(a), approximation(b)]
  return approximate(
    x.approx * y.approx,
    Math.abs(x.approx) * y.error + Math.abs(y.approx) * x.error + x.error * y.error,
  )
}

function inverse(a: Value): Value {
  if (a.exact) {
    if (isZero(a.exact)) throw new Undefined()
    return exact(rational(a.exact.d, a.exact.n))
  }
  const least = Math.abs(a.approx) - a.error
  if (least <= 0) throw new Undefined() // may be zero
  return approximate(1 / a.approx, a.error / (least * Math.abs(a.approx)))
}

function factorial(a: Value): Value {
  if (!a.exact || a.exact.d !== 1n || a.exact.n < 0n || a.exact.n > 1000n) throw new Undefined()
  let product = 1n
  for (let k = 2n; k <= a.exact.n; k++) product *= k
  return exact(rational(product))
}

function power(base: Value, exponent: Value): Value {
  if (exponent.exact && exponent.exact.d === 1n) return integerPower(base, exponent.exact.n)
  if (exponent.exact && base.exact) {
    const { n, d } = exponent.exact
    if (base.exact.n >= 0n && d <= 64n) {
      const rooted = exactRootOf(base.exact, d)
      if (rooted) return integerPower({ exact: rooted }, n)
    }
  }
  const [x, y] = [approximation(base), approximation(exponent)]
  if (x.approx <= 0) throw new Undefined()
  const result = x.approx ** y.approx
  return approximate(
    result,
    result * (Math.abs(y.approx) * (x.error / x.approx) + Math.abs(Math.log(x.approx)) * y.error),
  )
}

function integerPower(base: Value, exponent: bigint): Value {
  if (exponent < 0n) return integerPower(inverse(base), -exponent)
  if (base.exact) {
    const size = Number(exponent) * Math.max(1, bits(base.exact) - 3)
    if (base.exact.d === 1n && (base.exact.n === 1n || base.exact.n === 0n || base.exact.n === -1n)) {
      const sign = base.exact.n === -1n && exponent % 2n === 0n ? 1n : base.exact.n
      return exact(rational(exponent === 0n ? 1n : sign))
    }
    if (size > MAX_BITS) throw new Undefined()
    return exact({ n: base.exact.n ** exponent, d: base.exact.d ** exponent })
  }
  const count = Number(exponent)
  const result = base.approx ** count
  return approximate(
    result,
    count * Math.abs(base.approx ** (count - 1)) * base.error + count * Math.abs(result) * EPSILON,
  )
}

function exactRootOf(value: Rational, index: bigint): Rational | undefined {
  const [n, d] = [exactRoot(value.n, index), exactRoot(value.d, index)]
  return n !== undefined && d !== undefined ? { n, d } : undefined
}

function root(of: Value, index: Value): Value {
  if (!index.exact || index.exact.d !== 1n || index.exact.n < 1n || index.exact.n > 64n) throw new Undefined()
  const negative = of.exact ? of.exact.n < 0n : of.approx < 0
  if (!negative) return power(of, { exact: rational(1n, index.exact.n) })
  if (index.exact.n % 2n === 0n) throw new Undefined()
  return minus(root(minus(of), index))
}

/** Values at which a function is an exact number. */
function exactly(name: FunctionName, { n, d }: Rational): Rational | undefined {
  if (name === 'abs') return n < 0n ? { n: -n, d } : { n, d }
  if (n === 0n && d === 1n) {
    if (name === 'sin' || name === 'tan') return rational(0n)
    if (name === 'cos' || name === 'exp') return rational(1n)
  }
  if ((name === 'ln' || name === 'log') && n === 1n && d === 1n) return rational(0n)
  return undefined
}

function call(name: FunctionName, of: Value): Value {
  if (name === 'sqrt') return root(of, { exact: rational(2n) })
  const known = of.exact && exactly(name, of.exact)
  if (known) return exact(known)
  const { approx: x, error } = approximation(of)
  switch (name) {
    case 'abs':
      return approximate(Math.abs(x), error)
    case 'exp':
      return approximate(Math.exp(x), Math.exp(x) * error)
    case 'ln':
    case 'log':
      if (x - error <= 0) throw new Undefined()
      return name === 'ln' ? approximate(Math.log(x), error / x) : approximate(Math.log10(x), error / x / Math.LN10)
    case 'sin':
      return approximate(Math.sin(x), error)
    case 'cos':
      return approximate(Math.cos(x), error)
    case 'tan': {
      const result = Math.tan(x)
      const slope = 1 + result * result
      if (slope * error > 1e-3) throw new Undefined() // at a pole
      return approximate(result, slope * error)
    }
  }
}

export interface Tolerance {
  /** Largest accepted difference. Default 0. */
  readonly absolute?: number
  /** The same, as a share of the expected value. Default 0. */
  readonly relative?: number
}

/** Values with roots or transcendental functions in them are compared to this share, beside their own error. */
const APPROXIMATE_SHARE = 1e-12

/** Whether a value is the expected one: exactly where both are exact and nothing is tolerated. */
export function sameValue(value: Value, expected: Value, { absolute = 0, relative = 0 }: Tolerance = {}): boolean {
  if (value.exact && expected.exact) {
    if (equal(value.exact, expected.exact)) return true
    const allowed = Math.max(absolute, relative * Math.abs(toNumber(expected.exact)))
    return allowed > 0 && Math.abs(toNumber(add(value.exact, negate(expected.exact)))) <= allowed * (1 + 4 * EPSILON)
  }
  const [a, b] = [approximation(value), approximation(expected)]
  const allowed = Math.max(absolute, Math.max(relative, APPROXIMATE_SHARE) * Math.abs(b.approx))
  return Math.abs(a.approx - b.approx) <= allowed + 4 * (a.error + b.error)
}
