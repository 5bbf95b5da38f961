import { InvalidInputError } from '@selfplay/engine'
import type { Dim, Shape } from '../graph/index.js'

/** A size as a product: `factor * symbols[0] * symbols[1] * ...`. */
interface Product {
  readonly factor: number
  readonly symbols: readonly string[]
}

/** `"2*batch*seq"` -> 2 and [batch, seq]. */
function parse(dim: Dim): Product {
  if (typeof dim === 'number') return { factor: dim, symbols: [] }
  let factor = 1
  const symbols: string[] = []
  for (const part of dim.split('*').map((text) => text.trim())) {
    if (/^\d+$/.test(part)) factor *= Number(part)
    else symbols.push(part)
  }
  return { factor, symbols }
}

/** One shape that was declared for a tensor, made ready to be compared with concrete ones. */
export interface ShapePattern {
  /** What it belongs to, for messages: `input "tokens"`. */
  readonly owner: string
  readonly dims: readonly { readonly text: Dim; readonly product: Product }[]
}

export function shapePattern(owner: string, shape: Shape): ShapePattern {
  return { owner, dims: shape.map((text) => ({ text, product: parse(text) })) }
}

interface Bound {
  readonly value: number
  /** Where the value comes from, for messages. */
  readonly source: string
}

interface Open {
  readonly pattern: ShapePattern
  readonly axis: number
  readonly got: number
}

/** Values of the symbols of a graph, found by comparing declared shapes with concrete ones. */
export class Symbols {
  readonly #values = new Map<string, Bound>()
  /** Products with a symbol that is not known yet. */
  #open: Open[] = []

  /** Compares one tensor's shape. @throws InvalidInputError where it contradicts the declared one or an earlier one. */
  match(pattern: ShapePattern, dims: readonly number[]): void {
    if (dims.length !== pattern.dims.length) {
      const expected = pattern.dims.map((dim) => dim.text).join(', ')
      throw new InvalidInputError(
        `${pattern.owner}: expected shape [${expected}], got [${dims.join(', ')}] (rank ${dims.length})`,
        { tensor: pattern.owner, expected: pattern.dims.map((dim) => dim.text), got: [...dims] },
      )
    }
    for (let axis = 0; axis < dims.length; axis++) {
      const { product } = pattern.dims[axis]!
      const got = dims[axis]!
      const [symbol] = product.symbols
      if (symbol !== undefined && product.symbols.length === 1 && product.factor === 1 && !this.#values.has(symbol)) {
        this.#values.set(symbol, { value: got, source: `axis ${axis} of ${pattern.owner}` })
      } else if (!this.#check(pattern, axis, got)) {
        this.#open.push({ pattern, axis, got })
      }
    }
  }

  /** Solves what is left: products of which all symbols but one are known. Call it after the last `match`. */
  solve(): void {
    for (let before = -1; this.#open.length > 0 && this.#open.length !== before;) {
      before = this.#open.length
      this.#open = this.#open.filter(({ pattern, axis, got }) => !this.#reduce(pattern, axis, got))
    }
  }

  /** The size that `dim` stands for; undefined where a symbol in it is unknown. */
  value(dim: Dim): number | undefined {
    if (typeof dim === 'number') return dim
    const known = this.#values.get(dim)
    if (known) return known.value
    return this.#evaluate(parse(dim))
  }

  /** The sizes of a shape; undefined where one is unknown. */
  values(shape: Shape): number[] | undefined {
    const dims = shape.map((dim) => this.value(dim))
    return dims.includes(undefined) ? undefined : (dims as number[])
  }

  #evaluate({ factor, symbols }: Product): number | undefined {
    let result = factor
    for (const symbol of symbols) {
      const known = this.#values.get(symbol)
      if (!known) return undefined
      result *= known.value
    }
    return result
  }

  /** False where the size cannot be told yet. */
  #check(pattern: ShapePattern, axis: number, got: number): boolean {
    const { product } = pattern.dims[axis]!
    const expected = this.#evaluate(product)
    if (expected === undefined) return false
    if (expected !== got) this.#refuse(pattern, axis, got, String(expected))
    return true
  }

  /** Finds the one unknown symbol of a product. False where there is more than one. */
  #reduce(pattern: ShapePattern, axis: number, got: number): boolean {
    if (this.#check(pattern, axis, got)) return true
    const { factor, symbols } = pattern.dims[axis]!.product
    const unknown = symbols.filter((symbol) => !this.#values.has(symbol))
    if (unknown.length !== 1) return false
    const known = this.#evaluate({ factor, symbols: symbols.filter((symbol) => symbol !== unknown[0]) })!
    // 0 = 0 * unknown says nothing about it.
    if (known === 0 && got === 0) return true
    if (known === 0 || got % known !== 0) this.#refuse(pattern, axis, got, `a multiple of ${known}`)
    this.#values.set(unknown[0]!, { value: got / known, source: `axis ${axis} of ${pattern.owner}` })
    return true
  }

  #refuse(pattern: ShapePattern, axis: number, got: number, expected: string): never {
    const { text, product } = pattern.dims[axis]!
    const sources = product.symbols
      .map((symbol) => ({ symbol, bound: this.#values.get(symbol) }))
      .filter(({ bound }) => bound !== undefined)
      .map(({ symbol, bound }) => `${symbol} = ${bound!.value} from ${bound!.source}`)
    const why = sources.length > 0 ? ` (${sources.join('; ')})` : ''
    const what = typeof text === 'string' ? `"${text}"` : `${text}`
    throw new InvalidInputError(`${pattern.owner}: axis ${axis} is ${what}, expected ${expected}${why}, got ${got}`, {
      tensor: pattern.owner,
      axis,
      expected,
      got,
    })
  }
}
