/** A seeded stream of random draws. */
export interface Random {
  /** Uniform in [0, 1). */
  next(): number
  /** Uniform integer in [low, high], both included. */
  int(low: number, high: number): number
  /** One item, each as probable as the others. The list must not be empty. */
  pick<T>(items: readonly T[]): T
  /** An index, with probability proportional to its weight. */
  weighted(weights: readonly number[]): number
  /** True with probability p. */
  chance(p: number): boolean
  /** A shuffled copy (Fisher and Yates). */
  shuffle<T>(items: readonly T[]): T[]
}

/** 32-bit finaliser of MurmurHash3: spreads neighbouring integers over the whole range. */
function mix(value: number): number {
  let h = value | 0
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b)
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35)
  return (h ^ (h >>> 16)) >>> 0
}

/** FNV-1a over UTF-16 code units: a stable 32-bit hash of a string. */
export function hashText(text: string): number {
  let h = 0x811c9dc5
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193)
  return mix(h)
}

/**
 * The stream number `stream` of a seed (Doty-Humphrey's sfc32). Streams of one seed are independent for all practical purposes,
 * so document i can be made without making documents 0 to i - 1.
 */
export function createRandom(seed: number, stream = 0): Random {
  let a = mix(seed + 0x9e3779b9)
  let b = mix(stream ^ 0x5bf03635)
  let c = mix(a ^ Math.imul(stream, 0x27d4eb2f))
  let counter = 1
  const next = (): number => {
    const sum = (a + b + counter++) | 0
    a = b ^ (b >>> 9)
    b = (c + (c << 3)) | 0
    c = (((c << 21) | (c >>> 11)) + sum) | 0
    return (sum >>> 0) / 4294967296
  }
  for (let i = 0; i < 12; i++) next()
  const int = (low: number, high: number): number => low + Math.floor(next() * (high - low + 1))
  const pick = <T>(items: readonly T[]): T => {
    if (items.length === 0) throw new RangeError('expected a list with at least one item to pick from')
    return items[int(0, items.length - 1)] as T
  }
  const weighted = (weights: readonly number[]): number => {
    let left = next() * weights.reduce((sum, weight) => sum + weight, 0)
    for (const [index, weight] of weights.entries()) if ((left -= weight) < 0) return index
    return weights.length - 1
  }
  const shuffle = <T>(items: readonly T[]): T[] => {
    const out = [...items]
    for (let i = out.length - 1; i > 0; i--) {
      const j = int(0, i)
      const held = out[i] as T
      out[i] = out[j] as T
      out[j] = held
    }
    return out
  }
  return { next, int, pick, weighted, chance: (p) => next() < p, shuffle }
}
