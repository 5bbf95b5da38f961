/**
 * A number with a fixed count of decimals, rounded to the nearest and, exactly between two, to the even one: what Python's
 * `f'{value:.1f}'` gives. `toFixed` rounds such ties away from zero: 0.25 is `0.2` here and `0.3` there.
 *
 * @param digits decimals, a whole number >= 0.
 * @throws RangeError for other digits.
 */
export function fixedDecimals(value: number, digits: number): string {
  if (!Number.isSafeInteger(digits) || digits < 0) {
    throw new RangeError(`fixedDecimals: expected a whole number of digits >= 0, got ${digits}`)
  }
  if (Number.isNaN(value)) return 'nan'
  if (!Number.isFinite(value)) return value > 0 ? 'inf' : '-inf'
  const sign = value < 0 || Object.is(value, -0) ? '-' : ''
  const { mantissa, exponent } = partsOf(Math.abs(value))
  // The exact value is mantissa * 2^exponent; the text is the integer nearest to it times 10^digits.
  const scaled = mantissa * 10n ** BigInt(digits)
  const rounded = exponent >= 0 ? scaled << BigInt(exponent) : halfEven(scaled, BigInt(-exponent))
  const text = rounded.toString().padStart(digits + 1, '0')
  const whole = text.slice(0, text.length - digits)
  return digits === 0 ? `${sign}${whole}` : `${sign}${whole}.${text.slice(-digits)}`
}

/** value / 2^shift to the nearest integer, ties to the even one. */
function halfEven(value: bigint, shift: bigint): bigint {
  const down = value >> shift
  const rest = value - (down << shift)
  const half = 1n << (shift - 1n)
  const up = rest > half || (rest === half && (down & 1n) === 1n)
  return up ? down + 1n : down
}

/** A positive double as an integer times a power of two. */
function partsOf(value: number): { readonly mantissa: bigint; readonly exponent: number } {
  const view = new DataView(new ArrayBuffer(8))
  view.setFloat64(0, value)
  const bits = view.getBigUint64(0)
  const biased = Number(bits >> 52n)
  const fraction = bits & ((1n << 52n) - 1n)
  return biased === 0
    ? { mantissa: fraction, exponent: -1074 }
    : { mantissa: fraction | (1n << 52n), exponent: biased - 1075 }
}
