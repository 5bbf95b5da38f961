/**
 * Philox4x32-10, a counter-based generator: four random words are a pure function of a 64-bit key and a 128-bit counter.
 *
 * Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
 */
const MULTIPLIER_0 = 0xd2511f53
const MULTIPLIER_1 = 0xcd9e8d57
const WEYL_0 = 0x9e3779b9
const WEYL_1 = 0xbb67ae85
const ROUNDS = 10

/** High 32 bits of the product of two unsigned 32-bit words. */
function multiplyHigh(a: number, b: number): number {
  const aLow = a & 0xffff
  const aHigh = a >>> 16
  const bLow = b & 0xffff
  const bHigh = b >>> 16
  const cross = aHigh * bLow
  const crossToo = aLow * bHigh
  const middle = ((aLow * bLow) >>> 16) + (cross & 0xffff) + (crossToo & 0xffff)
  return (aHigh * bHigh + (cross >>> 16) + (crossToo >>> 16) + (middle >>> 16)) >>> 0
}

/** Writes the four words of (key, counter) into `out`. Everything is taken modulo 2^32. */
export function philox(
  out: Uint32Array,
  key: readonly [number, number],
  counter0: number,
  counter1: number,
  counter2: number,
  counter3: number,
): void {
  let key0 = key[0] >>> 0
  let key1 = key[1] >>> 0
  let x0 = counter0 >>> 0
  let x1 = counter1 >>> 0
  let x2 = counter2 >>> 0
  let x3 = counter3 >>> 0
  for (let round = 0; round < ROUNDS; round++) {
    const high0 = multiplyHigh(MULTIPLIER_0, x0)
    const low0 = Math.imul(MULTIPLIER_0, x0) >>> 0
    const high1 = multiplyHigh(MULTIPLIER_1, x2)
    const low1 = Math.imul(MULTIPLIER_1, x2) >>> 0
    x0 = (high1 ^ x1 ^ key0) >>> 0
    x1 = low1
    x2 = (high0 ^ x3 ^ key1) >>> 0
    x3 = low0
    key0 = (key0 + WEYL_0) >>> 0
    key1 = (key1 + WEYL_1) >>> 0
  }
  out[0] = x0
  out[1] = x1
  out[2] = x2
  out[3] = x3
}

/** The two key words of a seed: any safe integer, negative ones included. */
export function seedKey(seed: number): readonly [number, number] {
  const high = Math.floor(seed / 2 ** 32)
  return [(seed - high * 2 ** 32) >>> 0, high >>> 0]
}

/** The last counter word: keeps the draws of tokens and the draws of seeds apart. */
const PURPOSE_TOKEN = 0
const PURPOSE_SEED = 1
const TO_UNIT = 2 ** -24

/** The random stream of one completion: draws are a function of (seed, index of the completion, position) and of nothing else. */
export class TokenStream {
  readonly #key: readonly [number, number]
  readonly #index: number
  readonly #words = new Uint32Array(new ArrayBuffer(16))

  constructor(seed: number, index: number) {
    this.#key = seedKey(seed)
    this.#index = index
  }

  /**
   * Writes two independent uniform numbers in [0, 1), multiples of 2^-24 (exact in float32), to `out[at]` and `out[at + 1]`.
   *
   * @param position Absolute position of the token that is drawn, so that a conversation continued with the same seed does not
   * repeat its draws.
   */
  draw(position: number, out: Float32Array, at: number): void {
    philox(this.#words, this.#key, this.#index, position, 0, PURPOSE_TOKEN)
    out[at] = ((this.#words[0] ?? 0) >>> 8) * TO_UNIT
    out[at + 1] = ((this.#words[1] ?? 0) >>> 8) * TO_UNIT
  }
}

/** The n-th seed that follows from `seed`: an integer in [0, 2^53). */
export function derivedSeed(seed: number, n: number): number {
  const words = new Uint32Array(4)
  philox(words, seedKey(seed), n, Math.floor(n / 2 ** 32), 0, PURPOSE_SEED)
  return ((words[0] ?? 0) >>> 11) * 2 ** 32 + (words[1] ?? 0)
}
