import { RuntimeError } from './errors.js'

// Reads and writes as much of the ONNX protobuf (onnx.proto of IR version 10) as it takes to say anew where the external
// weights of a model come from. Everything else is passed on byte for byte.

/** A field of a protobuf message. `start`..`end` is its payload, `from`..`end` the whole of it. */
interface Field {
  readonly number: number
  readonly wire: number
  readonly from: number
  readonly start: number
  readonly end: number
}

const MODEL = { graph: 7 } as const
const GRAPH = { node: 1, initializer: 5, input: 11 } as const
const NODE = { input: 1, output: 2, opType: 4 } as const
const TENSOR = { dims: 1, dataType: 2, name: 8, externalData: 13, dataLocation: 14 } as const
const EXTERNAL = 1

/** Inputs of operators whose kernels pack them into a layout of their own where they are constant. */
const PACKED_INPUTS: Readonly<Record<string, readonly number[]>> = {
  MatMul: [1],
  Gemm: [1],
  FusedMatMul: [1],
  MatMulInteger: [1],
  MatMulNBits: [1, 2, 3, 4, 5],
  Conv: [1],
  ConvTranspose: [1],
}

export interface ExternalWeight {
  readonly name: string
  /** Whether it feeds an operator that packs it, and none that onnxruntime would compute ahead of time. */
  readonly packable: boolean
}

/** What becomes of an external weight. */
export type Placement =
  /** An initializer that optimisers may take for granted. Its bytes come from elsewhere. */
  | 'constant'
  /** An initializer that is an input, too: no optimiser reads or copies it. */
  | 'default'
  /** An input only. */
  | 'input'

/** A serialised model taken apart. */
export class ModelBytes {
  readonly #bytes: Uint8Array
  readonly #graph: Field
  readonly #initializers: readonly { readonly field: Field; readonly name: string; readonly external: boolean }[]
  readonly weights: readonly ExternalWeight[]

  /** @throws RuntimeError where the bytes are no ONNX model. */
  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
    const graph = fields(bytes, 0, bytes.length).find((field) => field.number === MODEL.graph && field.wire === 2)
    if (!graph) throw new RuntimeError('these bytes are no ONNX model: they hold no graph')
    this.#graph = graph
    const parts = fields(bytes, graph.start, graph.end)
    this.#initializers = parts
      .filter((part) => part.number === GRAPH.initializer)
      .map((field) => ({ field, ...this.#tensor(field) }))
    const external = this.#initializers.filter((initializer) => initializer.external)
    const nodes = external.length === 0 ? [] : parts.filter((part) => part.number === GRAPH.node)
    const packable = this.#packable(nodes)
    this.weights = external.map(({ name }) => ({ name, packable: packable(name) }))
  }

  /**
   * The model with every external weight placed as `place` says, and its location replaced by `location`, beyond the
   * end of any file: should onnxruntime read it in spite of all, it fails instead of computing with foreign bytes.
   */
  rewrite(place: (weight: ExternalWeight) => { placement: Placement; location: string; offset?: number }): Uint8Array {
    if (this.weights.length === 0) return this.#bytes
    const inputs = new Set<string>()
    const chunks: Uint8Array[] = []
    let at = this.#graph.start
    const byName = new Map(this.weights.map((weight) => [weight.name, weight]))
    const added: Uint8Array[] = []
    for (const part of fields(this.#bytes, this.#graph.start, this.#graph.end)) {
      if (part.number === GRAPH.input) inputs.add(this.#string(part, 1))
    }
    for (const { field, name, external } of this.#initializers) {
      if (!external) continue
      const { placement, location, offset } = place(byName.get(name)!)
      chunks.push(this.#bytes.subarray(at, field.from))
      at = field.end
      if (placement !== 'input') chunks.push(this.#relocated(field, location, offset))
      if (placement !== 'constant' && !inputs.has(name)) added.push(this.#asInput(field, name))
    }
    chunks.push(this.#bytes.subarray(at, this.#graph.end), ...added)
    return Buffer.concat([
      this.#bytes.subarray(0, this.#graph.from),
      message(MODEL.graph, Buffer.concat(chunks)),
      this.#bytes.subarray(this.#graph.end),
    ])
  }

  #tensor(field: Field): { name: string; external: boolean } {
    let name = ''
    let external = false
    for (const part of fields(this.#bytes, field.start, field.end)) {
      if (part.number === TENSOR.name) name = text(this.#bytes, part)
      if (part.number === TENSOR.dataLocation) external = readVarint(this.#bytes, part.start) === EXTERNAL
    }
    return { name, external }
  }

  /** The initializer as external data at another place. */
  #relocated(field: Field, location: string, offset: number | undefined): Uint8Array {
    const kept = fields(this.#bytes, field.start, field.end)
      .filter((part) => part.number !== TENSOR.externalData)
      .map((part) => this.#bytes.subarray(part.from, part.end))
    const entries = Object.entries({ location, ...(offset === undefined ? {} : { offset: String(offset) }) })
    const data = entries.map(([key, value]) =>
      message(TENSOR.externalData, Buffer.concat([message(1, Buffer.from(key)), message(2, Buffer.from(value))])),
    )
    return message(GRAPH.initializer, Buffer.concat([...kept, ...data]))
  }

  /** The initializer as a graph input (ValueInfoProto with a TypeProto.Tensor). */
  #asInput(field: Field, name: string): Uint8Array {
    const dims: number[] = []
    let dataType = 0
    for (const part of fields(this.#bytes, field.start, field.end)) {
      if (part.number === TENSOR.dataType) dataType = readVarint(this.#bytes, part.start)
      if (part.number !== TENSOR.dims) continue
      // Packed lists and single values are both allowed.
      const reader = new VarintReader(this.#bytes, part.start)
      while (reader.at < part.end) dims.push(reader.next())
    }
    const shape = Buffer.concat(dims.map((dim) => message(1, varintField(1, dim))))
    const tensor = Buffer.concat([varintField(1, dataType), message(2, shape)])
    return message(GRAPH.input, Buffer.concat([message(1, Buffer.from(name)), message(2, message(1, tensor))]))
  }

  /**
   * Which weights a kernel packs. A weight that feeds a node with nothing but constants does not count: onnxruntime
   * would compute that node ahead of time and keep the result, a copy, so it must not be constant.
   */
  #packable(nodes: readonly Field[]): (name: string) => boolean {
    const external = new Set(this.#initializers.filter((init) => init.external).map((init) => init.name))
    const constant = new Set(this.#initializers.map((init) => init.name))
    const packed = new Set<string>()
    const folded = new Set<string>()
    for (const node of nodes) {
      const { inputs, outputs, opType } = this.#node(node)
      if ((inputs.length > 0 || opType === 'Constant') && inputs.every((name) => name === '' || constant.has(name))) {
        const weights = inputs.filter((name) => external.has(name))
        weights.forEach((name) => folded.add(name))
        if (weights.length === 0) outputs.forEach((name) => constant.add(name))
      }
      for (const index of PACKED_INPUTS[opType] ?? []) packed.add(inputs[index] ?? '')
    }
    return (name) => packed.has(name) && !folded.has(name)
  }

  #node(node: Field): { inputs: string[]; outputs: string[]; opType: string } {
    const parts = fields(this.#bytes, node.start, node.end)
    const strings = (number: number) =>
      parts.filter((part) => part.number === number).map((part) => text(this.#bytes, part))
    return { inputs: strings(NODE.input), outputs: strings(NODE.output), opType: strings(NODE.opType)[0] ?? '' }
  }

  #string(field: Field, number: number): string {
    const part = fields(this.#bytes, field.start, field.end).find((inner) => inner.number === number)
    return part ? text(this.#bytes, part) : ''
  }
}

function text(bytes: Uint8Array, { start, end }: Field): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString('utf8')
}

/** The fields of the message in `start`..`end`. */
function fields(bytes: Uint8Array, start: number, end: number): Field[] {
  const found: Field[] = []
  const reader = new VarintReader(bytes, start)
  while (reader.at < end) {
    const from = reader.at
    const tag = reader.next()
    const wire = tag % 8
    let payload = reader.at
    if (wire === 0) reader.next()
    else if (wire === 1) reader.at += 8
    else if (wire === 5) reader.at += 4
    else if (wire === 2) {
      const length = reader.next()
      payload = reader.at
      reader.at += length
    } else throw new RuntimeError(`these bytes are no ONNX model: wire type ${wire} at byte ${from}`)
    if (reader.at > end)
      throw new RuntimeError(`these bytes are no whole ONNX model: a field at byte ${from} runs over the end`)
    found.push({ number: Math.floor(tag / 8), wire, from, start: payload, end: reader.at })
  }
  return found
}

/** Reads base-128 numbers one after another; those of 2^53 and more are rounded. */
class VarintReader {
  at: number
  readonly #bytes: Uint8Array

  constructor(bytes: Uint8Array, at: number) {
    this.#bytes = bytes
    this.at = at
  }

  next(): number {
    const start = this.at
    let value = 0
    for (let scale = 1; this.at < start + 10; scale *= 128) {
      const byte = this.#bytes[this.at]
      if (byte === undefined) break
      this.at++
      value += (byte & 127) * scale
      if (byte < 128) return value
    }
    throw new RuntimeError(`these bytes are no whole ONNX model: a number at byte ${start} has no end`)
  }
}

function readVarint(bytes: Uint8Array, at: number): number {
  return new VarintReader(bytes, at).next()
}

function varint(value: number): Uint8Array {
  const bytes: number[] = []
  let rest = value
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128)
  return Uint8Array.from([...bytes, rest])
}

function varintField(number: number, value: number): Uint8Array {
  return Buffer.concat([varint(8 * number), varint(value)])
}

function message(number: number, payload: Uint8Array): Uint8Array {
  return Buffer.concat([varint(8 * number + 2), varint(payload.length), payload])
}
