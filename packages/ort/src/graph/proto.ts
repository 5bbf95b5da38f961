/** Writes ONNX protobuf messages: the few fields of onnx.proto that a graph needs, numbered as there. */
import type { Attribute, Attributes } from './ir.js'
import { onnxDataType } from './dtypes.js'
import type { DType, Shape, TensorSpec, WeightFile } from './types.js'

const utf8 = new TextEncoder()

/** A growing protobuf message. */
class Message {
  private bytes = new Uint8Array(256)
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
    if (value >= 0 && value < 0x80) {
      this.bytes[this.length++] = value
      return
    }
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
    return this.raw(field, utf8.encode(value))
  }

  message(field: number, value: Message): this {
    return this.raw(field, value.finish())
  }

  messages(field: number, values: readonly Message[]): this {
    for (const value of values) this.message(field, value)
    return this
  }

  finish(): Uint8Array {
    return this.bytes.subarray(0, this.length)
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
  const graph = new Message()
    .messages(1, model.nodes.map(nodeProto))
    .string(2, 'graph')
    .messages(5, model.initializers.map(tensorProto))
    .messages(11, model.inputs.map(valueInfoProto))
    .messages(12, model.outputs.map(valueInfoProto))
  const opsets = Object.entries(model.opsets)
  return new Message()
    .int(1, model.irVersion)
    .string(2, 'selfplay')
    .message(7, graph)
    .messages(
      8,
      opsets.map(([domain, version]) => new Message().string(1, domain).int(2, version)),
    )
    .finish()
    .slice()
}

function nodeProto(node: NodeRecord): Message {
  const message = new Message()
  for (const name of node.inputs) message.string(1, name)
  for (const name of node.outputs) message.string(2, name)
  message.string(3, node.name).string(4, node.opType)
  for (const [name, attribute] of Object.entries(node.attributes)) message.message(5, attributeProto(name, attribute))
  return node.domain === '' ? message : message.string(7, node.domain)
}

function attributeProto(name: string, attribute: Attribute): Message {
  const message = new Message().string(1, name)
  switch (attribute.type) {
    case 'float':
      return message.float(2, attribute.value).int(20, 1)
    case 'int':
      return message.int(3, attribute.value).int(20, 2)
    case 'string':
      return message.string(4, attribute.value).int(20, 3)
    case 'ints':
      for (const value of attribute.value) message.int(8, value)
      return message.int(20, 7)
  }
}

function tensorProto({ name, dtype, shape, data }: InitializerRecord): Message {
  const message = new Message()
  for (const size of shape) message.int(1, size)
  message.int(2, onnxDataType[dtype]).string(8, name)
  if (data instanceof Uint8Array) return message.raw(9, data)
  const entries = { location: data.path, offset: String(data.offset), length: String(data.length) }
  for (const [key, value] of Object.entries(entries)) message.message(13, new Message().string(1, key).string(2, value))
  return message.int(14, 1)
}

function valueInfoProto({ name, dtype, shape }: { name: string; dtype: DType; shape: Shape }): Message {
  const dims = shape.map((dim) => (typeof dim === 'number' ? new Message().int(1, dim) : new Message().string(2, dim)))
  const tensor = new Message().int(1, onnxDataType[dtype]).message(2, new Message().messages(1, dims))
  return new Message().string(1, name).message(2, new Message().message(1, tensor))
}
