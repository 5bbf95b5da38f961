/** An exact fraction in lowest terms; `d` is positive. */
export interface Rational {
  readonly n: bigint
  readonly d: bigint
}

const abs = (value: bigint): bigint => (value < 0n ? -value : value)

function gcd(a: bigint, b: bigint): bigint {
  while (b !== 0n) [a, b] = [b, a % b]
  return a
}

/** n/d in lowest terms; `d` must not be 0. */
export function rational(n: bigint, d = 1n): Rational {
  const common = gcd(abs(n), abs(d)) * (d < 0n ? -1n : 1n)
  return { n: n / common, d: d / common }
}

/** The exact value of a decimal numeral without separators, such as `-12.50` or `1e-7`. */
export function fromDecimal(numeral: string): Rational {
  const [mantissa = '', exponent = '0'] = numeral.toLowerCase().split('e')
  const [whole = '', fraction = ''] = mantissa.split('.')
  const digits = BigInt(`${whole}${fraction}`.replace('+', '') || '0')
  const shift = Number(exponent) - fraction.length
  return shift >= 0 ? rational(digits * 10n ** BigInt(shift)) : rational(digits, 10n ** BigInt(-shift))
}

export const add = (a: Rational, b: Rational): Rational => rational(a.n * b.d + b.n * a.d, a.d * b.d)
export const multiply = (a: Rational, b: Rational): Rational => rational(a.n * b.n, a.d * b.d)
export const negate = (a: Rational): Rational => ({ n: -a.n, d: a.d })
export const isZero = (a: Rational): boolean => a.n === 0n
export const equal = (a: Rational, b: Rational): boolean => a.n === b.n && a.d === b.d

/** Number of bits of the longer of numerator and denominator. */
export const bits = ({ n, d }: Rational): number => 4 * Math.max(abs(n).toString(16).length, d.toString(16).length)

/** The nearest double (to about one unit in the last place), also of fractions whose parts do not fit a double. */
export function toNumber({ n, d }: Rational): number {
  const excess = BigInt(Math.max(0, bits({ n, d }) - 900))
  if (excess === 0n) return Number(n) / Number(d)
  // Scale by 2^k so that the quotient keeps 64 bits, then put k back in.
  const shift = BigInt(d.toString(2).length - abs(n).toString(2).length + 64)
  const quotient = shift >= 0n ? (n << shift) / d : n / (d << -shift)
  const half = Number(shift) / 2
  return Number(quotient) * 2 ** -Math.floor(half) * 2 ** -Math.ceil(half)
}

/** The integer k-th root of a non-negative integer when there is one. */
export function exactRoot(value: bigint, k: bigint): bigint | undefined {
  if (value < 2n) return value
  let low = 1n
  let high = 1n << (BigInt(value.toString(2).length) / k + 1n)
  while (low < high) {
    const middle = (low + high + 1n) >> 1n
    if (middle ** k <= value) low = middle
    else high = middle - 1n
  }
  return low ** k === value ? low : undefined
}
