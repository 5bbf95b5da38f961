import { bytesOf, encodeNumbers } from './dtypes.js'
import { symbolsOf } from './dims.js'
import { GraphError } from './errors.js'
import type { Graph } from './graph.js'
import type { Literal, Lowered, Node, Op, Operand, Value } from './ir.js'
import { ops } from './ops/index.js'
import { encodeModel, type InitializerRecord, type NodeRecord } from './proto.js'
import type { SerialisedModel, Shape, TensorSpec } from './types.js'

/** The ONNX version that graphs are written in. Later ones lose GPU kernels. */
export const opsetVersion = 21
export const irVersion = 10
/** Location of external weights that come as memory. */
export const memoryLocation = 'weights'

/** The ONNX form of a node. */
export function lowerNode(node: Node): Lowered {
  const op = ops[node.op] as Op<unknown>
  return op.lower?.(node.inputs, node.params) ?? { inputs: node.inputs, attributes: {} }
}

/** The nodes that the values depend on, inputs before users. */
export function ancestors(values: readonly Value[]): readonly Node[] {
  const found = new Map<number, Node>()
  const pending = values.flatMap((value) => value.producer ?? [])
  for (let node = pending.pop(); node; node = pending.pop()) {
    if (found.has(node.id)) continue
    found.set(node.id, node)
    for (const input of node.inputs) if (input?.producer) pending.push(input.producer)
  }
  return [...found.values()].toSorted((a, b) => a.id - b.id)
}

/**
 * Writes the part of a graph that the outputs depend on as an ONNX model. Inputs that nothing reads are left out, unless
 * a size that the graph needs is known from them alone.
 */
export function serialise(graph: Graph, outputs: Readonly<Record<string, Value>>): SerialisedModel {
  return new Serialiser(graph, outputs).run()
}

/** Whether a value's name was given by the caller and must stand in the model. */
const isDeclared = ({ role }: Value) => role !== 'result' && role !== 'constant'

/**
 * The order in which nodes are written. onnxruntime takes the nodes that no other node reads from the last to the first, and runs what
 * each still needs. So these stand at the end, the latest first: an output is computed as soon as its inputs are
 * there, not after everything else with its inputs kept in memory until then.
 */
function fileOrder(nodes: readonly Node[]): readonly Node[] {
  const read = new Set(nodes.flatMap((node) => node.inputs.map((input) => input?.id)))
  const isRead = (node: Node) => node.outputs.some(({ id }) => read.has(id))
  return [...nodes.filter(isRead), ...nodes.filter((node) => !isRead(node)).toReversed()]
}

const isValue = (operand: Value | Literal): operand is Value => 'id' in operand

class Serialiser {
  private readonly graph: Graph
  private readonly outputs: readonly (readonly [string, Value])[]
  private readonly nodes: readonly Node[]
  private readonly names = new Map<number, string>()
  private readonly taken = new Set<string>()
  private readonly read = new Set<number>()
  private readonly records: NodeRecord[] = []
  private readonly literals = new Map<string, InitializerRecord>()
  private readonly shapeInputs = new Map<string, SerialisedModel['shapeInputs'][number]>()
  private readonly domains = new Set([''])

  constructor(graph: Graph, outputs: Readonly<Record<string, Value>>) {
    this.graph = graph
    this.outputs = Object.entries(outputs)
    if (this.outputs.length === 0) throw new GraphError('a model needs at least one output; got none')
    for (const [name, value] of this.outputs) {
      if (value.graph !== graph) throw new GraphError(`output "${name}" belongs to another graph`, { name })
    }
    this.nodes = ancestors(this.outputs.map(([, value]) => value))
    for (const node of this.nodes) for (const input of node.inputs) if (input) this.read.add(input.id)
    for (const [, value] of this.outputs) this.read.add(value.id)
  }

  run(): SerialisedModel {
    const copies = this.nameOutputs()
    for (const node of fileOrder(this.nodes)) this.writeNode(node)
    for (const [name, value] of copies) this.writeCopy(name, value)
    const stored = this.graph.values.filter(
      ({ id, role }) => this.read.has(id) && (role === 'constant' || role === 'weight'),
    )
    const inputs = this.inputs()
    const outputs = this.outputs.map(([name, { dtype, shape }]) => ({ name, dtype, shape }))
    const shapeInputs = [...this.shapeInputs.values()]
    const shapeSpecs = shapeInputs.map(({ name, dims }): TensorSpec => ({ name, dtype: 'int64', shape: [dims.length] }))
    const bytes = encodeModel({
      irVersion,
      opsets: Object.fromEntries([...this.domains].map((domain) => [domain, domain === '' ? opsetVersion : 1])),
      nodes: this.records,
      initializers: [...this.literals.values(), ...stored.map((value) => this.initializer(value))],
      inputs: [...inputs, ...shapeSpecs],
      outputs,
    })
    return { bytes, inputs, outputs, shapeInputs, weights: this.weights() }
  }

  /** Gives results their output names; returns the outputs that need a copy because their value has a name already. */
  private nameOutputs(): readonly (readonly [string, Value])[] {
    for (const value of this.graph.values) if (isDeclared(value)) this.taken.add(value.name)
    const copies: (readonly [string, Value])[] = []
    for (const [name, value] of this.outputs) {
      if (name === '' || this.taken.has(name)) {
        throw new GraphError(`an output cannot be called "${name}": an input, weight or constant has that name`, {
          name,
        })
      }
      if (value.role === 'result' && !this.names.has(value.id)) this.names.set(value.id, name)
      else copies.push([name, value])
    }
    for (const [name] of this.outputs) this.taken.add(name)
    return copies
  }

  private nameOf(value: Value): string {
    if (isDeclared(value)) return value.name
    const known = this.names.get(value.id) ?? this.unique(value.name)
    this.names.set(value.id, known)
    return known
  }

  /** A name that nothing else has. */
  private unique(base: string): string {
    let name = base
    while (this.taken.has(name)) name += '_'
    this.taken.add(name)
    return name
  }

  private writeNode(node: Node): void {
    const { domain, requiredOutputs } = ops[node.op] as Op<unknown>
    const { inputs, attributes } = lowerNode(node)
    const operands = inputs.map((operand) => this.operandName(operand))
    while (operands.at(-1) === '') operands.pop()
    const outputs = node.outputs.map((value, index) =>
      this.read.has(value.id) || index < (requiredOutputs ?? Infinity) ? this.nameOf(value) : '',
    )
    while (outputs.at(-1) === '') outputs.pop()
    this.domains.add(domain)
    this.records.push({ name: `${node.op}_${node.id}`, opType: node.op, domain, inputs: operands, outputs, attributes })
  }

  private writeCopy(output: string, value: Value): void {
    const inputs = [this.nameOf(value)]
    this.records.push({ name: output, opType: 'Identity', domain: '', inputs, outputs: [output], attributes: {} })
  }

  private operandName(operand: Operand): string {
    if (operand === undefined) return ''
    if ('dims' in operand) return this.shapeInput(operand.dims)
    return isValue(operand) ? this.nameOf(operand) : this.literal(operand)
  }

  private shapeInput(dims: Shape): string {
    const key = dims.join(',')
    const known = this.shapeInputs.get(key) ?? { name: this.unique(`sizes:${key}`), dims }
    this.shapeInputs.set(key, known)
    return known.name
  }

  private literal({ dtype, shape, values }: Literal): string {
    const key = `${dtype}:${shape.length === 0 ? '' : '['}${values.join(',')}`
    const known = this.literals.get(key) ?? {
      name: this.unique(key),
      dtype,
      shape,
      data: encodeNumbers(dtype, values),
    }
    this.literals.set(key, known)
    return known.name
  }

  private initializer(value: Value): InitializerRecord {
    const { dtype, bytes, file } = value
    const shape = value.shape as readonly number[] // constants and weights are made with numbers only
    const length = shape.reduce((size, dim) => size * dim, bytesOf[dtype])
    return {
      name: this.nameOf(value),
      dtype,
      shape,
      data: bytes ?? file ?? { path: memoryLocation, offset: 0, length },
    }
  }

  private inputs(): readonly TensorSpec[] {
    const declared = this.graph.values.filter(({ role }) => role === 'input' || role === 'parameter')
    const kept = new Set(declared.filter(({ id }) => this.read.has(id)))
    const carries = (value: Value, symbol: string) => value.shape.some((dim) => symbolsOf(dim).includes(symbol))
    const needed = new Set([...this.shapeInputs.values()].flatMap(({ dims }) => dims).flatMap((dim) => symbolsOf(dim)))
    for (const symbol of needed) {
      if ([...kept].some((value) => carries(value, symbol))) continue
      const carrier = declared.find((value) => carries(value, symbol))
      if (!carrier) throw new GraphError(`no input has the size "${symbol}", so it cannot be known`, { symbol })
      kept.add(carrier)
    }
    return declared.filter((value) => kept.has(value)).map(({ name, dtype, shape }) => ({ name, dtype, shape }))
  }

  private weights(): SerialisedModel['weights'] {
    return this.graph.values
      .filter((value) => value.role === 'weight' && this.read.has(value.id))
      .map(({ name, dtype, shape, file }) => ({ name, dtype, shape, ...(file && { file }) }))
  }
}
