import { InvalidInputError } from '@selfplay/engine'
import type { SerialisedModel, Shape, TensorSpec } from '../graph/index.js'
import { suggestion } from './nearest.js'
import type { PinnableTensor } from './pins.js'
import { type ShapePattern, shapePattern, Symbols } from './symbols.js'
import type { Tensor } from './types.js'

interface Entry {
  readonly spec: TensorSpec
  readonly pattern: ShapePattern
}

/** Tensors that were checked against a graph, in its order. */
export interface Checked<T extends PinnableTensor> {
  /** One per input of the graph. */
  readonly inputs: readonly T[]
  /** The outputs that were asked for. */
  readonly outputs: readonly CheckedOutput<T>[]
  /** Values of the shape inputs, one list per shape input. */
  readonly shapes: readonly (readonly number[])[]
}

interface CheckedOutput<T extends PinnableTensor> {
  readonly spec: TensorSpec
  /** Null where the runtime shall allocate it. */
  readonly tensor: T | null
  /** Its size as far as the inputs tell it. */
  readonly dims: readonly number[] | undefined
}

type Cast<T> = (tensor: Tensor, what: string) => T

/**
 * What a graph takes and gives, and the check of tensors against it. T is the kind of tensor that the runtime at hand
 * works with: one in host memory for the CPU.
 */
export class Signature<T extends PinnableTensor> {
  readonly #inputs: ReadonlyMap<string, Entry>
  readonly #outputs: ReadonlyMap<string, Entry>
  readonly #shapeInputs: readonly { readonly name: string; readonly dims: Shape }[]

  readonly #cast: Cast<T>

  /** `cast` gives the runtime's own tensor behind the interface, or throws. */
  constructor(model: SerialisedModel, cast: Cast<T>) {
    this.#cast = cast
    this.#inputs = entries('input', model.inputs)
    this.#outputs = entries('output', model.outputs)
    this.#shapeInputs = model.shapeInputs
  }

  /** @throws InvalidInputError for a name that is missing or unknown, a wrong dtype, shapes that contradict each other. */
  check(
    inputs: Readonly<Record<string, Tensor>>,
    outputs: Readonly<Record<string, Tensor | null>>,
    given: 'some' | 'all' = 'some',
  ): Checked<T> {
    const symbols = new Symbols()
    const feeds = this.#feeds(inputs, symbols)
    const wanted: { spec: TensorSpec; tensor: T | null }[] = []
    for (const name of Object.keys(outputs)) {
      const entry = this.#outputs.get(name)
      if (!entry) this.#unknown('output', name, this.#outputs)
      const tensor = outputs[name]
      if (tensor === null && given === 'some') wanted.push({ spec: entry.spec, tensor })
      else wanted.push({ spec: entry.spec, tensor: this.#accept(entry, tensor, symbols) })
    }
    if (wanted.length === 0) {
      throw new InvalidInputError(`a run must name at least one output of ${[...this.#outputs.keys()].join(', ')}`)
    }
    symbols.solve()
    return {
      inputs: feeds,
      outputs: wanted.map(({ spec, tensor }) => ({ spec, tensor, dims: tensor?.dims ?? symbols.values(spec.shape) })),
      shapes: this.#shapeInputs.map((input) => this.#shape(input, symbols)),
    }
  }

  #feeds(inputs: Readonly<Record<string, Tensor>>, symbols: Symbols): T[] {
    const feeds: T[] = []
    for (const [name, entry] of this.#inputs) {
      const tensor = inputs[name]
      if (tensor === undefined) this.#missing(name, inputs)
      feeds.push(this.#accept(entry, tensor, symbols))
    }
    const names = Object.keys(inputs)
    if (names.length > feeds.length) {
      for (const name of names) if (!this.#inputs.has(name)) this.#unknown('input', name, this.#inputs)
    }
    return feeds
  }

  #accept({ spec, pattern }: Entry, tensor: Tensor | null | undefined, symbols: Symbols): T {
    if (!tensor) throw new InvalidInputError(`${pattern.owner}: expected a tensor, got ${String(tensor)}`)
    const own = this.#cast(tensor, pattern.owner)
    if (own.dtype !== spec.dtype) {
      throw new InvalidInputError(`${pattern.owner}: expected ${spec.dtype}, got ${own.dtype}`, {
        tensor: spec.name,
        expected: spec.dtype,
        got: own.dtype,
      })
    }
    symbols.match(pattern, own.dims)
    return own
  }

  #missing(name: string, inputs: Readonly<Record<string, Tensor>>): never {
    const stray = Object.keys(inputs).filter((given) => !this.#inputs.has(given))
    const got = Object.keys(inputs).join(', ') || 'none'
    const hint = stray.length > 0 ? suggestion(name, stray).replace('did you mean', 'it came as, perhaps,') : ''
    throw new InvalidInputError(`input "${name}" is missing, got: ${got}${hint}`, {
      input: name,
      expected: [...this.#inputs.keys()],
      got: Object.keys(inputs),
    })
  }

  #unknown(kind: 'input' | 'output', name: string, known: ReadonlyMap<string, Entry>): never {
    if (this.#shapeInputs.some((input) => input.name === name)) {
      throw new InvalidInputError(`input "${name}" is a shape input: the runtime fills it in, leave it out`)
    }
    throw new InvalidInputError(`the graph has no ${kind} "${name}"${suggestion(name, [...known.keys()])}`, {
      [kind]: name,
      expected: [...known.keys()],
    })
  }

  #shape(input: { readonly name: string; readonly dims: Shape }, symbols: Symbols): number[] {
    const values = symbols.values(input.dims)
    if (values) return values
    throw new InvalidInputError(
      `shape input "${input.name}" is [${input.dims.join(', ')}], which the shapes of the inputs do not determine`,
      { input: input.name, dims: [...input.dims] },
    )
  }
}

function entries(kind: 'input' | 'output', specs: readonly TensorSpec[]): Map<string, Entry> {
  return new Map(
    specs.map((spec) => [spec.name, { spec, pattern: shapePattern(`${kind} "${spec.name}"`, spec.shape) }]),
  )
}
