/** Writes ONNX protobuf messages: the few fields of onnx.proto that a graph needs, numbered as there. */
import type { Attribute, Attributes } from './ir.js'
import { onnxDataType } from './dtypes.js'
import type { Dim, DType, Shape, TensorSpec, WeightFile } from './types.js'

const utf8 = new TextEncoder()

/** Writes what a message consists of. */
type Content = () => unknown

/** Writes a protobuf message into one growing array, messages within it in place. */
class Writer {
  private bytes = new Uint8Array(1 << 14)
  private length = 0

  private reserve(count: number): void {
    if (this.length + count <= this.bytes.length) return
    const grown = new Uint8Array(Math.max(this.bytes.length * 2, this.length + count))
    grown.set(this.bytes.subarray(0, this.length))
    this.bytes = grown
  }

  /** Base-128, little end first; negative numbers as 64-bit two's complement. */
  private varint(value: number): void {
    this.reserve(10)
    if (value < 0) return this.negative(value)
    let rest = value
    while (rest >= 0x80) {
      this.bytes[this.length++] = (rest % 0x80) | 0x80
      rest = Math.floor(rest / 0x80)
    }
    this.bytes[this.length++] = rest
  }

  private negative(value: number): void {
    for (let rest = BigInt.asUintN(64, BigInt(value)); ; rest >>= 7n) {
      if (rest < 0x80n) {
        this.bytes[this.length++] = Number(rest)
        return
      }
      this.bytes[this.length++] = Number(rest & 0x7fn) | 0x80
    }
  }

  int(field: number, value: number): this {
    this.varint(field * 8)
    this.varint(value)
    return this
  }

  float(field: number, value: number): this {
    this.varint(field * 8 + 5)
    this.reserve(4)
    new DataView(this.bytes.buffer).setFloat32(this.length, value, true)
    this.length += 4
    return this
  }

  raw(field: number, value: Uint8Array): this {
    this.varint(field * 8 + 2)
    this.varint(value.length)
    this.reserve(value.length)
    this.bytes.set(value, this.length)
    this.length += value.length
    return this
  }

  string(field: number, value: string): this {
    this.varint(field * 8 + 2)
    const start = this.open()
    this.reserve(3 * value.length) // the most that UTF-8 takes
    this.length += utf8.encodeInto(value, this.bytes.subarray(this.length)).written
    this.close(start)
    return this
  }

  message(field: number, content: Content): this {
    this.varint(field * 8 + 2)
    const start = this.open()
    content()
    this.close(start)
    return this
  }

  /** Leaves room for a length of one byte, which that of most messages is. */
  private open(): number {
    this.reserve(1)
    return ++this.length
  }

  /** Writes the length of what came since `open`, which moves back where that takes more than one byte. */
  private close(start: number): void {
    const size = this.length - start
    if (size < 0x80) {
      this.bytes[start - 1] = size
      return
    }
    let extra = 0
    for (let rest = size; rest >= 0x80; rest = Math.floor(rest / 0x80)) extra++
    this.reserve(extra)
    this.bytes.copyWithin(start + extra, start, this.length)
    this.length = start - 1
    this.varint(size)
    this.length = start + extra + size
  }

  /** A copy of what was written. */
  finish(): Uint8Array {
    return this.bytes.slice(0, this.length)
  }
}

export interface NodeRecord {
  readonly name: string
  readonly opType: string
  readonly domain: string
  /** Names; empty where an optional operand is left out. */
  readonly inputs: readonly string[]
  readonly outputs: readonly string[]
  readonly attributes: Attributes
}

export interface InitializerRecord {
  readonly name: string
  readonly dtype: DType
  readonly shape: readonly number[]
  readonly data: Uint8Array | WeightFile
}

export interface ModelRecord {
  readonly irVersion: number
  /** Version by domain. */
  readonly opsets: Readonly<Record<string, number>>
  readonly nodes: readonly NodeRecord[]
  readonly initializers: readonly InitializerRecord[]
  readonly inputs: readonly TensorSpec[]
  readonly outputs: readonly TensorSpec[]
}

/** A ModelProto. */
export function encodeModel(model: ModelRecord): Uint8Array {
  const to = new Writer()
  to.int(1, model.irVersion)
    .string(2, 'selfplay')
    .message(7, () => writeGraph(to, model))
  for (const [domain, version] of Object.entries(model.opsets)) {
    to.message(8, () => to.string(1, domain).int(2, version))
  }
  return to.finish()
}

function writeGraph(to: Writer, { nodes, initializers, inputs, outputs }: ModelRecord): void {
  for (const node of nodes) to.message(1, () => writeNode(to, node))
  to.string(2, 'graph')
  for (const initializer of initializers) to.message(5, () => writeTensor(to, initializer))
  for (const input of inputs) to.message(11, () => writeValueInfo(to, input))
  for (const output of outputs) to.message(12, () => writeValueInfo(to, output))
}

function writeNode(to: Writer, node: NodeRecord): void {
  for (const name of node.inputs) to.string(1, name)
  for (const name of node.outputs) to.string(2, name)
  to.string(3, node.name).string(4, node.opType)
  for (const [name, attribute] of Object.entries(node.attributes)) {
    to.message(5, () => writeAttribute(to, name, attribute))
  }
  if (node.domain !== '') to.string(7, node.domain)
}

function writeAttribute(to: Writer, name: string, attribute: Attribute): void {
  to.string(1, name)
  switch (attribute.type) {
    case 'float':
      to.float(2, attribute.value).int(20, 1)
      break
    case 'int':
      to.int(3, attribute.value).int(20, 2)
      break
    case 'string':
      to.string(4, attribute.value).int(20, 3)
      break
    case 'ints':
      for (const value of attribute.value) to.int(8, value)
      to.int(20, 7)
  }
}

function writeTensor(to: Writer, { name, dtype, shape, data }: InitializerRecord): void {
  for (const size of shape) to.int(1, size)
  to.int(2, onnxDataType[dtype]).string(8, name)
  if (data instanceof Uint8Array) {
    to.raw(9, data)
    return
  }
  const entries = { location: data.path, offset: String(data.offset), length: String(data.length) }
  for (const [key, value] of Object.entries(entries)) to.message(13, () => to.string(1, key).string(2, value))
  to.int(14, 1)
}

function writeValueInfo(to: Writer, { name, dtype, shape }: { name: string; dtype: DType; shape: Shape }): void {
  const writeDim = (dim: Dim) => (typeof dim === 'number' ? to.int(1, dim) : to.string(2, dim))
  const writeShape = () => shape.forEach((dim) => to.message(1, () => writeDim(dim)))
  const writeTensorType = () => to.int(1, onnxDataType[dtype]).message(2, writeShape)
  to.string(1, name).message(2, () => to.message(1, writeTensorType))
}
