import { describe, expect, it } from 'vitest'
import { bitsToBfloat16, bitsToFloat16, float16ToBits, narrow, widen } from './half.js'

const all = Uint16Array.from({ length: 0x10000 }, (_, bits) => bits)
const bitsOf = (values: Float32Array) => new Uint32Array(values.buffer, values.byteOffset, values.length)

/** The value of 16 bits by the definition of the format, in plain arithmetic. */
function valueOf(bits: number, exponentBits: number, fractionBits: number): number {
  const sign = bits & 0x8000 ? -1 : 1
  const exponent = (bits >> fractionBits) & (2 ** exponentBits - 1)
  const fraction = bits & (2 ** fractionBits - 1)
  const bias = 2 ** (exponentBits - 1) - 1
  if (exponent === 2 ** exponentBits - 1) return fraction ? NaN : sign * Infinity
  if (exponent === 0) return sign * fraction * 2 ** (1 - bias - fractionBits)
  return sign * (1 + fraction / 2 ** fractionBits) * 2 ** (exponent - bias)
}

const formats = [
  { format: 'F16', exponentBits: 5, fractionBits: 10, infinity: 0x7c00, narrowBits: bitsToFloat16 },
  { format: 'BF16', exponentBits: 8, fractionBits: 7, infinity: 0x7f80, narrowBits: bitsToBfloat16 },
] as const

describe.each(formats)('$format', ({ format, exponentBits, fractionBits, infinity, narrowBits }) => {
  const widened = new Float32Array(0x10000)
  widen(format, all, widened)

  it('widens all 65,536 values exactly', () => {
    const wrong = [...all].filter((bits) => !Object.is(widened[bits], valueOf(bits, exponentBits, fractionBits)))
    expect(wrong).toEqual([])
  })

  it('narrows each of them back to its own bits, NaN payloads included', () => {
    const back = new Uint16Array(0x10000)
    narrow(format, widened, back)
    expect(back).toEqual(all)
  })

  it('rounds to nearest and ties to even between all neighbours of both signs', () => {
    const scratch = new Float32Array(1)
    const narrowed = (value: number) => {
      scratch[0] = value
      return narrowBits(bitsOf(scratch)[0]!)
    }
    const wrong: number[] = []
    for (const sign of [0, 0x8000]) {
      for (let lower = 0; lower < infinity; lower++) {
        const low = valueOf(lower, exponentBits, fractionBits)
        const step = valueOf(lower + 1, exponentBits, fractionBits) - low
        // Above the greatest finite value the next step would have been just as wide.
        const width = Number.isFinite(step) ? step : low - valueOf(lower - 1, exponentBits, fractionBits)
        const middle = low + width / 2
        const even = lower & 1 ? lower + 1 : lower
        const signed = sign ? -1 : 1
        if (narrowed(signed * middle) !== (sign | even)) wrong.push(sign | lower)
        if (narrowed(signed * (low + width * 0.49)) !== (sign | lower)) wrong.push(sign | lower)
        if (narrowed(signed * (low + width * 0.51)) !== (sign | (lower + 1))) wrong.push(sign | lower)
      }
    }
    expect(wrong).toEqual([])
  })

  it('keeps a NaN a NaN when its upper payload is empty', () => {
    const narrowed = narrowBits(0x7f800001)
    expect(narrowed & infinity).toBe(infinity)
    expect(narrowed & (2 ** fractionBits - 1)).not.toBe(0)
  })

  it('widens inside one piece of memory', () => {
    const target = new Float32Array(0x10000)
    const source = new Uint16Array(target.buffer, 0x20000, 0x10000)
    source.set(all)
    widen(format, source, target)
    expect(bitsOf(target)).toEqual(bitsOf(widened))
  })
})

it('agrees on single values', () => {
  expect(float16ToBits(0x3c00)).toBe(0x3f800000) // 1
  expect(bitsToFloat16(0x477fefff)).toBe(0x7bff) // just below 65520
  expect(bitsToFloat16(0x477ff000)).toBe(0x7c00) // 65520
  expect(bitsToFloat16(0x7f7fffff)).toBe(0x7c00)
})
