/**
 * 16-bit floats as raw bits, to and from float32. Widening is exact; narrowing rounds to nearest, ties to even (IEEE 754),
 * overflow gives infinity, and a NaN stays a NaN with the upper bits of its payload.
 *
 * Everything runs on bit patterns, since a NaN's payload does not survive a pass through a JavaScript number.
 */

/** The float32 bits of float16 bits. IEEE 754-2019, 3.4: 1 sign, 5 exponent (bias 15), 10 fraction bits. */
export function float16ToBits(half: number): number {
  const sign = (half & 0x8000) << 16
  const exponent = (half >>> 10) & 0x1f
  const fraction = half & 0x3ff
  if (exponent === 0x1f) return (sign | 0x7f800000 | (fraction << 13)) >>> 0
  if (exponent !== 0) return (sign | ((exponent + 112) << 23) | (fraction << 13)) >>> 0
  if (fraction === 0) return sign >>> 0
  // A subnormal, fraction * 2^-24: move its top bit up to the hidden place and count the steps.
  const shift = Math.clz32(fraction) - 21
  return (sign | ((113 - shift) << 23) | (((fraction << shift) & 0x3ff) << 13)) >>> 0
}

/** The float16 bits nearest to the float32 with these bits. */
export function bitsToFloat16(bits: number): number {
  const sign = (bits >>> 16) & 0x8000
  const magnitude = bits & 0x7fffffff
  if (magnitude > 0x7f800000) return sign | 0x7c00 | ((magnitude >>> 13) & 0x3ff || 0x200)
  if (magnitude >= 0x477ff000) return sign | 0x7c00 // 65520 and above: half way to 2^16, rounds to infinity
  if (magnitude >= 0x38800000) return sign | ((magnitude - 0x38000000 + 0xfff + ((magnitude >>> 13) & 1)) >>> 13)
  if (magnitude <= 0x33000000) return sign // 2^-25 and below: half of the least subnormal, ties to even
  const shift = 126 - (magnitude >>> 23)
  const significand = (magnitude & 0x7fffff) | 0x800000
  const rest = significand & ((1 << shift) - 1)
  const half = significand >>> shift
  const middle = 1 << (shift - 1)
  return sign | (half + (rest > middle || (rest === middle && half & 1) ? 1 : 0))
}

/** The bfloat16 bits nearest to the float32 with these bits: its upper half, rounded. */
export function bitsToBfloat16(bits: number): number {
  if ((bits & 0x7fffffff) > 0x7f800000) return (bits >>> 16) & 0x7f ? bits >>> 16 : (bits >>> 16) | 0x40
  return (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16
}

let widened: Uint32Array | undefined

function wideningTable(): Uint32Array {
  if (widened) return widened
  widened = new Uint32Array(0x10000)
  for (let half = 0; half < 0x10000; half++) widened[half] = float16ToBits(half)
  return widened
}

const bitsOf = (values: Float32Array): Uint32Array => new Uint32Array(values.buffer, values.byteOffset, values.length)

/**
 * Widens `source` into `target`, both [n]. `source` may be the second half of `target`'s own memory: it is read ahead of
 * what is written.
 */
export function widen(format: 'F16' | 'BF16', source: Uint16Array, target: Float32Array): void {
  const out = bitsOf(target)
  const n = source.length
  if (format === 'BF16') {
    for (let i = 0; i < n; i++) out[i] = source[i]! << 16
    return
  }
  const table = wideningTable()
  for (let i = 0; i < n; i++) out[i] = table[source[i]!]!
}

/** Narrows `source` into `target`, both [n]. */
export function narrow(format: 'F16' | 'BF16', source: Float32Array, target: Uint16Array): void {
  const bits = bitsOf(source)
  const n = bits.length
  if (format === 'F16') for (let i = 0; i < n; i++) target[i] = bitsToFloat16(bits[i]!)
  else for (let i = 0; i < n; i++) target[i] = bitsToBfloat16(bits[i]!)
}
