/** State of a {@link Random}: four unsigned 32-bit words. */
export type RandomState = readonly [number, number, number, number]

/** 2^32. */
const WORDS = 4_294_967_296

/** The finaliser of MurmurHash3: spreads every input bit over the word. */
function mix(word: number): number {
  let h = word >>> 0
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b)
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35)
  return (h ^ (h >>> 16)) >>> 0
}

/**
 * A seed from a seed and a place (batch, group, slot, turn, ...): the same place always gets the same one, another place
 * another.
 *
 * @returns an integer in [0, 2^31)
 */
export function deriveSeed(seed: number, ...place: readonly (number | string)[]): number {
  let h = mix(Math.trunc(seed) ^ mix(Math.trunc(seed / WORDS)))
  for (const part of place) {
    const text = String(part)
    for (let i = 0; i < text.length; i++) h = mix((h + text.charCodeAt(i) + 0x9e3779b9) >>> 0)
    h = mix((h ^ 0x5bd1e995) >>> 0) // ends a part: ("1", "2") differs from ("12")
  }
  return h >>> 1
}

/** A seeded generator whose state is four words (sfc32: Doty-Humphrey, PractRand). */
export class Random {
  #a: number
  #b: number
  #c: number
  #counter: number

  constructor(seedOrState: number | RandomState) {
    if (typeof seedOrState === 'number') {
      this.#a = deriveSeed(seedOrState, 'a')
      this.#b = deriveSeed(seedOrState, 'b')
      this.#c = deriveSeed(seedOrState, 'c')
      this.#counter = 1
      for (let i = 0; i < 12; i++) this.word()
    } else {
      ;[this.#a, this.#b, this.#c, this.#counter] = seedOrState
    }
  }

  /** Where the stream stands; `new Random(state)` continues it. */
  get state(): RandomState {
    return [this.#a >>> 0, this.#b >>> 0, this.#c >>> 0, this.#counter >>> 0]
  }

  /** An unsigned 32-bit integer. */
  word(): number {
    const sum = (this.#a + this.#b + this.#counter) | 0
    this.#counter = (this.#counter + 1) | 0
    this.#a = this.#b ^ (this.#b >>> 9)
    this.#b = (this.#c + (this.#c << 3)) | 0
    this.#c = (((this.#c << 21) | (this.#c >>> 11)) + sum) | 0
    return sum >>> 0
  }

  /** Uniform in [0, 1). */
  float(): number {
    return this.word() / WORDS
  }

  /** Uniform integer in [0, n). */
  below(n: number): number {
    return Math.floor(this.float() * n)
  }

  /** One of `items`, uniformly. The list must not be empty. */
  pick<T>(items: readonly T[]): T {
    return items[this.below(items.length)] as T
  }

  /** A shuffled copy (Fisher-Yates). */
  shuffle<T>(items: readonly T[]): T[] {
    const out = [...items]
    for (let i = out.length - 1; i > 0; i--) {
      const j = this.below(i + 1)
      const held = out[i] as T
      out[i] = out[j] as T
      out[j] = held
    }
    return out
  }
}
