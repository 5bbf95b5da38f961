import { GraphError } from './errors.js'
import type { Dim, Shape } from './types.js'

/** Sizes of symbols, such as `{batch: 4, seq: 16}`. */
export type Bindings = Readonly<Record<string, number>>

interface Product {
  readonly coefficient: number
  readonly symbols: readonly string[]
}

const symbolPattern = /^[A-Za-z_][A-Za-z0-9_.]*$/

/** Products that were parsed before: a graph has few of them, in hundreds of shapes. Emptied when there are many. */
const parsed = new Map<string, { readonly product: Product; readonly canonical: Dim }>()
const MOST_PARSED = 10_000

function known(dim: string): { readonly product: Product; readonly canonical: Dim } {
  const found = parsed.get(dim)
  if (found) return found
  const product = parse(dim)
  const entry = { product, canonical: format(product) }
  if (parsed.size >= MOST_PARSED) parsed.clear()
  parsed.set(dim, entry)
  return entry
}

function productOf(dim: Dim): Product {
  return typeof dim === 'string' ? known(dim).product : parse(dim)
}

function parse(dim: Dim): Product {
  if (typeof dim === 'number') {
    if (!Number.isSafeInteger(dim) || dim < 0) {
      throw new GraphError(`a dimension must be a whole number >= 0, a symbol or a product of them; got ${dim}`, {
        dim,
      })
    }
    return { coefficient: dim, symbols: [] }
  }
  let coefficient = 1
  const symbols: string[] = []
  for (const factor of dim.split('*').map((part) => part.trim())) {
    if (/^\d+$/.test(factor)) coefficient *= Number(factor)
    else if (symbolPattern.test(factor)) symbols.push(factor)
    else throw new GraphError(`a dimension must be a product such as "2*batch*seq"; got "${dim}"`, { dim })
  }
  return { coefficient, symbols: symbols.toSorted() }
}

function format({ coefficient, symbols }: Product): Dim {
  if (symbols.length === 0 || coefficient === 0) return coefficient
  return coefficient === 1 ? symbols.join('*') : [coefficient, ...symbols].join('*')
}

/** The canonical spelling: the number first, then the symbols sorted. Equal canonical dims are `===`. */
export function canonicalDim(dim: Dim): Dim {
  if (typeof dim === 'string') return known(dim).canonical
  parse(dim)
  return dim
}

export function canonicalShape(shape: Shape): Shape {
  return shape.map(canonicalDim)
}

export function multiplyDims(...dims: readonly Dim[]): Dim {
  const products = dims.map(productOf)
  return format({
    coefficient: products.reduce((product, { coefficient }) => product * coefficient, 1),
    symbols: products.flatMap(({ symbols }) => symbols).toSorted(),
  })
}

/** `numerator / denominator` where that is a whole product, else undefined. */
export function divideDims(numerator: Dim, denominator: Dim): Dim | undefined {
  const above = productOf(numerator)
  const below = productOf(denominator)
  if (below.coefficient === 0 || above.coefficient % below.coefficient !== 0) return undefined
  const symbols = [...above.symbols]
  for (const symbol of below.symbols) {
    const at = symbols.indexOf(symbol)
    if (at < 0) return undefined
    symbols.splice(at, 1)
  }
  return format({ coefficient: above.coefficient / below.coefficient, symbols })
}

export function sameDim(a: Dim, b: Dim): boolean {
  return a === b || canonicalDim(a) === canonicalDim(b)
}

export function sameShape(a: Shape, b: Shape): boolean {
  return a.length === b.length && a.every((dim, axis) => sameDim(dim, b[axis]!))
}

/** Number of elements. */
export function shapeSize(shape: Shape): Dim {
  return multiplyDims(...shape)
}

/** The symbols of a dim, each once. */
export function symbolsOf(dim: Dim): readonly string[] {
  return [...new Set(productOf(dim).symbols)]
}

/** The size of a dim once its symbols are known. */
export function evaluateDim(dim: Dim, bindings: Bindings): number {
  const { coefficient, symbols } = productOf(dim)
  return symbols.reduce((product, symbol) => {
    const size = Object.hasOwn(bindings, symbol) ? bindings[symbol] : undefined
    if (size === undefined) throw new GraphError(`the size of "${symbol}" in "${dim}" is unknown`, { dim, bindings })
    return product * size
  }, coefficient)
}

export function evaluateShape(shape: Shape, bindings: Bindings): number[] {
  return shape.map((dim) => evaluateDim(dim, bindings))
}

/**
 * The sizes of all symbols, read off the concrete dims of the inputs that carry them. Products with one unknown factor
 * are solved. Throws where a rank or a size does not fit the declaration; says which input and both shapes.
 */
export function bindSymbols(
  specs: readonly { readonly name: string; readonly shape: Shape }[],
  concrete: Readonly<Record<string, readonly number[]>>,
): Record<string, number> {
  const bindings: Record<string, number> = {}
  const equations: { readonly name: string; readonly dim: Dim; readonly size: number }[] = []
  for (const { name, shape } of specs) {
    const dims = concrete[name]
    if (dims === undefined) continue
    if (dims.length !== shape.length) throw misfit(name, shape, dims)
    shape.forEach((dim, axis) => equations.push({ name, dim, size: dims[axis]! }))
  }
  for (let pending = equations, before = Infinity; pending.length < before;) {
    before = pending.length
    pending = pending.filter(({ dim, size }) => !solve(dim, size, bindings))
  }
  for (const { name, dim, size } of equations) {
    const unknown = symbolsOf(dim).filter((symbol) => !Object.hasOwn(bindings, symbol))
    const isWhole = symbolsOf(dim).every((symbol) => Number.isInteger(bindings[symbol] ?? 0))
    if (unknown.length === 0 && !(isWhole && evaluateDim(dim, bindings) === size)) {
      const spec = specs.find((one) => one.name === name)!
      throw misfit(name, spec.shape, concrete[name]!, bindings)
    }
  }
  return bindings
}

/** Binds the one unknown symbol of an equation; true once nothing is unknown. */
function solve(dim: Dim, size: number, bindings: Record<string, number>): boolean {
  const { coefficient, symbols } = productOf(dim)
  const unknown = symbols.filter((symbol) => !Object.hasOwn(bindings, symbol))
  if (unknown.length > 1) return false
  const known = symbols.reduce((product, symbol) => product * (bindings[symbol] ?? 1), coefficient)
  if (unknown.length === 1) {
    if (known === 0) return false
    bindings[unknown[0]!] = size / known
  }
  return true
}

function misfit(name: string, shape: Shape, dims: readonly number[], bindings: Bindings = {}): GraphError {
  const where = Object.entries(bindings).map(([symbol, size]) => `${symbol} = ${size}`)
  return new GraphError(
    `input "${name}" is declared as [${shape.join(', ')}] but came as [${dims.join(', ')}]` +
      (where.length > 0 ? ` (${where.join(', ')})` : ''),
    { name, expected: shape, got: dims, bindings },
  )
}
