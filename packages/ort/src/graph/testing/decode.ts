/** Reads ONNX protobuf back, field by field, independently of the writer. For tests. */

type Field = number | bigint | Uint8Array

/** All fields of a message by number, in order. */
function fields(bytes: Uint8Array): Map<number, Field[]> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const found = new Map<number, Field[]>()
  let at = 0
  const varint = (): bigint => {
    let value = 0n
    for (let shift = 0n; ; shift += 7n) {
      const byte = view.getUint8(at++)
      value |= BigInt(byte & 0x7f) << shift
      if (byte < 0x80) return value
    }
  }
  while (at < bytes.length) {
    const key = Number(varint())
    const kind = key & 7
    let value: Field
    if (kind === 0) value = BigInt.asIntN(64, varint())
    else if (kind === 5) value = view.getFloat32((at += 4) - 4, true)
    else if (kind === 2) {
      const length = Number(varint())
      value = bytes.subarray(at, (at += length))
    } else throw new Error(`wire type ${kind} is not used by ONNX`)
    found.set(key >>> 3, [...(found.get(key >>> 3) ?? []), value])
  }
  return found
}

const text = (field: Field) => new TextDecoder().decode(field as Uint8Array)
const all = (message: Map<number, Field[]>, field: number) => message.get(field) ?? []
const one = (message: Map<number, Field[]>, field: number) => all(message, field)[0]

export interface DecodedNode {
  readonly op: string
  readonly domain: string
  readonly inputs: readonly string[]
  readonly outputs: readonly string[]
  readonly attributes: Readonly<Record<string, number | string | readonly number[]>>
}

export function decodeModel(bytes: Uint8Array) {
  const model = fields(bytes)
  const graph = fields(one(model, 7) as Uint8Array)
  return {
    irVersion: Number(one(model, 1)),
    opsets: all(model, 8).map((field) => {
      const opset = fields(field as Uint8Array)
      return { domain: text(one(opset, 1)!), version: Number(one(opset, 2)) }
    }),
    nodes: all(graph, 1).map((field) => decodeNode(fields(field as Uint8Array))),
    initializers: all(graph, 5).map((field) => decodeTensor(fields(field as Uint8Array))),
    inputs: all(graph, 11).map((field) => decodeInfo(fields(field as Uint8Array))),
    outputs: all(graph, 12).map((field) => decodeInfo(fields(field as Uint8Array))),
  }
}

function decodeNode(node: Map<number, Field[]>): DecodedNode {
  const attributes = all(node, 5).map((field) => {
    const attribute = fields(field as Uint8Array)
    const value = {
      1: () => one(attribute, 2) as number,
      2: () => Number(one(attribute, 3)),
      3: () => text(one(attribute, 4)!),
      7: () => all(attribute, 8).map(Number),
    }[Number(one(attribute, 20)) as 1 | 2 | 3 | 7]()
    return [text(one(attribute, 1)!), value] as const
  })
  return {
    op: text(one(node, 4)!),
    domain: one(node, 7) === undefined ? '' : text(one(node, 7)!),
    inputs: all(node, 1).map(text),
    outputs: all(node, 2).map(text),
    attributes: Object.fromEntries(attributes),
  }
}

function decodeTensor(tensor: Map<number, Field[]>) {
  const external = all(tensor, 13).map((field) => {
    const entry = fields(field as Uint8Array)
    return [text(one(entry, 1)!), text(one(entry, 2)!)] as const
  })
  return {
    name: text(one(tensor, 8)!),
    dims: all(tensor, 1).map(Number),
    dataType: Number(one(tensor, 2)),
    raw: one(tensor, 9) as Uint8Array | undefined,
    location: Number(one(tensor, 14) ?? 0),
    external: Object.fromEntries(external),
  }
}

function decodeInfo(info: Map<number, Field[]>) {
  const type = fields(one(fields(one(info, 2) as Uint8Array), 1) as Uint8Array)
  const shape = fields(one(type, 2) as Uint8Array)
  const dims = all(shape, 1).map((field) => {
    const dim = fields(field as Uint8Array)
    return dim.has(1) ? Number(one(dim, 1)) : text(one(dim, 2)!)
  })
  return { name: text(one(info, 1)!), dataType: Number(one(type, 1)), dims }
}
