/** Grows random graphs twice alike: in single precision with fused ops, and in double with their decompositions. */
import {
  type Bindings,
  type Dim,
  type DType,
  evaluateShape,
  type Graph,
  graph,
  type Shape,
  type Value,
} from '../../graph/index.js'
import type { Fed } from '../../graph/testing/run.js'

/** Uniform numbers in [0, 1), a fixed sequence for each seed. */
export function uniform(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x9e3779b9) >>> 0
    let mixed = Math.imul(state ^ (state >>> 16), 0x21f0aaad)
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97)
    return ((mixed ^ (mixed >>> 15)) >>> 0) / 2 ** 32
  }
}

export interface KitOptions {
  readonly seed: number
  /** `double`: float64 and no op without a double kernel. */
  readonly precision: 'single' | 'double'
  /** Sizes of symbols that shapes may use. */
  readonly symbols?: Bindings
}

export class Kit {
  readonly g: Graph = graph()
  readonly isDouble: boolean
  readonly dtype: DType
  readonly symbols: Bindings
  readonly parameters: Value[] = []
  readonly feeds: Record<string, { dims: readonly number[]; data: number[] }> = {}
  private readonly random: () => number

  constructor({ seed, precision, symbols = {} }: KitOptions) {
    this.isDouble = precision === 'double'
    this.dtype = this.isDouble ? 'float64' : 'float32'
    this.symbols = symbols
    this.random = uniform(seed)
  }

  /** A whole number from 0 to below n. */
  below(n: number): number {
    return Math.floor(this.random() * n)
  }
  pick<T>(...choices: readonly T[]): T {
    return choices[this.below(choices.length)]!
  }
  coin(): boolean {
    return this.random() < 0.5
  }
  /** Numbers around 0 that float32 holds exactly, so that both precisions start alike. */
  private numbers(count: number): number[] {
    return Array.from({ length: count }, () => Math.fround(3 * (this.random() + this.random() - 1)))
  }

  size(dim: Dim): number {
    return evaluateShape([dim], this.symbols)[0]!
  }
  count(value: Value): number {
    return evaluateShape(value.shape, this.symbols).reduce((product, size) => product * size, 1)
  }

  /** A shape of sizes 1 to 4; the first may be a symbol. */
  shape(minRank = 0, maxRank = 3): Shape {
    const rank = minRank + this.below(maxRank - minRank + 1)
    const symbols = Object.keys(this.symbols)
    return Array.from({ length: rank }, (_, axis): Dim => {
      const size = 1 + this.below(4)
      return axis === 0 && symbols.length > 0 && this.coin() ? symbols[0]! : size
    })
  }

  parameter(shape: Shape): Value {
    const value = this.g.parameter(`p${this.parameters.length}`, this.dtype, shape)
    this.feed(value, this.numbers(this.count(value)))
    this.parameters.push(value)
    return value
  }
  /** int32 numbers below `limit`. */
  indices(shape: Shape, limit: number): Value {
    const value = this.g.input(`i${Object.keys(this.feeds).length}`, 'int32', shape)
    const data = Array.from({ length: this.count(value) }, () => this.below(limit))
    this.feed(value, data)
    return value
  }
  private feed(value: Value, data: number[]): void {
    this.feeds[value.name] = { dims: evaluateShape(value.shape, this.symbols), data }
  }

  /** Numbers in float32 with which to weigh a result, as a constant. */
  constant(dims: readonly number[]): Value {
    return this.g.constant(this.numbers(dims.reduce((product, size) => product * size, 1)), this.dtype, dims)
  }

  /** A new parameter that broadcasts with x; sometimes it is the larger one. */
  mate(x: Value): Value {
    const dims = x.shape.map((dim): Dim => {
      const shrunk = this.below(4) === 0
      const grown = dim === 1 && this.coin()
      return shrunk ? 1 : grown ? 3 : dim
    })
    const cut = this.below(3) === 0 ? this.below(dims.length + 1) : 0
    return this.parameter(cut === 0 && dims.length < 3 && this.below(4) === 0 ? [2, ...dims] : dims.slice(cut))
  }
  axis(x: Value): number {
    return this.below(x.shape.length)
  }
  /** Some axes, at least one. */
  axes(x: Value): number[] {
    const chosen = [...x.shape.keys()].filter(() => this.coin())
    return chosen.length > 0 ? chosen : [this.axis(x)]
  }
  /** x with new leading axes if it has too few. */
  atLeast(x: Value, rank: number): Value {
    const missing = Math.max(0, rank - x.shape.length)
    return missing === 0 ? x : this.g.unsqueeze(x, [...Array(missing).keys()])
  }
  /** Like x, with a last axis of 2 to 4 numbers. */
  listed(x: Value, rank = 1): Value {
    const last = x.shape.at(-1)
    if (typeof last === 'number' && last >= 2) return this.atLeast(x, rank)
    const wide = this.g.add(this.g.unsqueeze(x, [-1]), this.parameter([2 + this.below(3)]))
    return this.atLeast(wide, rank)
  }
  /** x^2 + 1/2 */
  positive(x: Value): Value {
    return this.g.add(this.g.mul(x, x), 0.5)
  }

  /** <result, fixed random numbers>: one number to differentiate. */
  loss(result: Value): Value {
    const numeric = result.shape.map((dim): number => (typeof dim === 'number' ? dim : 1))
    return this.g.reduceSum(this.g.mul(result, this.constant(numeric)))
  }

  fed(): Record<string, Fed> {
    return this.feeds
  }
}

/** erf(x) for |x| < 4 by its Taylor series, in ops that have double kernels. */
export function erfSeries(g: Graph, x: Value): Value {
  const square = g.mul(x, x)
  const terms = 60
  let factorial = 1
  const coefficients = Array.from({ length: terms }, (_, n) => {
    if (n > 0) factorial *= n
    return ((n % 2 === 0 ? 1 : -1) * (2 / Math.sqrt(Math.PI))) / (factorial * (2 * n + 1))
  })
  let sum = g.mul(square, coefficients[terms - 1]!)
  for (let n = terms - 2; n > 0; n--) sum = g.mul(square, g.add(sum, coefficients[n]!))
  return g.mul(x, g.add(sum, coefficients[0]!))
}
