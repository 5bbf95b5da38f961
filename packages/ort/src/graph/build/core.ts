import { canonicalShape, shapeSize } from '../dims.js'
import { encodeNumbers, isFloat } from '../dtypes.js'
import { describe, GraphError } from '../errors.js'
import type { Graph } from '../graph.js'
import { type Node, type Op, site, type TensorType, type Value } from '../ir.js'
import { type OpName, ops, type ParamsOf } from '../ops/index.js'
import type { DType, Provider, Shape, WeightFile } from '../types.js'

/** A value, or a number that becomes a constant of the other operand's dtype. */
export type ValueLike = Value | number

/** Numbers in row-major order. */
export type ConstantData = number | bigint | boolean | ArrayLike<number> | ArrayLike<bigint>

/** What all builders share: declared values, constants, and the one way in which nodes are made. */
export abstract class GraphCore {
  /** The providers that the graph is meant for. Tests check its kernels against them. */
  readonly providers: readonly Provider[]
  private readonly allValues: Value[] = []
  private readonly allNodes: Node[] = []
  private readonly names = new Map<string, Value>()
  private readonly constants = new Map<string, Value>()
  protected abstract readonly self: Graph

  constructor(providers: readonly Provider[]) {
    this.providers = providers
  }

  /** All values, in the order of creation. */
  get values(): readonly Value[] {
    return this.allValues
  }

  /** All nodes; inputs stand before their users. */
  get nodes(): readonly Node[] {
    return this.allNodes
  }

  /** The value that was declared under this name, if any. */
  named(name: string): Value | undefined {
    return this.names.get(name)
  }

  /** A tensor that the caller feeds at each run. */
  input(name: string, dtype: DType, shape: Shape): Value {
    return this.declare(name, { role: 'input', dtype, shape })
  }

  /** An input that holds trainable numbers. */
  parameter(name: string, dtype: DType, shape: Shape): Value {
    if (!isFloat(dtype))
      throw new GraphError(`parameter "${name}" must be floating point, not ${dtype}`, { name, dtype })
    return this.declare(name, { role: 'parameter', dtype, shape })
  }

  /** A frozen tensor outside the model's bytes: in `file`, or memory that the session is given under this name. */
  weight(name: string, dtype: DType, shape: readonly number[], file?: WeightFile): Value {
    return this.declare(name, { role: 'weight', dtype, shape, ...(file && { file }) })
  }

  /** Numbers inside the model's bytes. Default shape: none for a single number, [length] for a list. */
  constant(value: ConstantData, dtype: DType, shape?: readonly number[]): Value {
    const list = typeof value === 'object' ? value : [Number(value)]
    const dims = shape ?? (typeof value === 'object' ? [list.length] : [])
    if (shapeSize(dims) !== list.length) {
      throw new GraphError(
        `a constant of shape [${dims.join(', ')}] needs ${shapeSize(dims)} numbers; got ${list.length}`,
      )
    }
    const bytes = encodeNumbers(dtype, list)
    const key = bytes.length <= 64 ? `${dtype}[${dims.join()}]${bytes.join()}` : undefined
    const known = key === undefined ? undefined : this.constants.get(key)
    if (known) return known
    const made = this.register({
      name: `constant_${this.allValues.length}`,
      role: 'constant',
      dtype,
      shape: dims,
      bytes,
    })
    if (key !== undefined) this.constants.set(key, made)
    return made
  }

  /**
   * Applies an op: checks dtypes and shapes, adds the node, returns its outputs. The methods named after the ops are the
   * friendlier way to the same.
   */
  apply<N extends OpName>(op: N, inputs: readonly (Value | undefined)[], params: ParamsOf<N>): readonly Value[] {
    const definition = ops[op] as unknown as Op<ParamsOf<N>>
    const place = site(op, inputs, params)
    for (const input of inputs)
      if (input && input.graph !== this.self) place.fail(`"${input.name}" is of another graph`)
    this.checkDtypes(definition, place)
    const types = definition.infer(place)
    const id = this.allNodes.length
    const outputs: Value[] = []
    const node = { id, op, inputs, params, outputs } as unknown as Node
    types.forEach(({ dtype, shape }, index) => {
      const name = `${op}_${id}${types.length > 1 ? `.${index}` : ''}`
      outputs.push(this.register({ name, role: 'result', dtype, shape: canonicalShape(shape), producer: node }))
    })
    this.allNodes.push(node)
    return outputs
  }

  /** `apply` for ops of one output. */
  protected one<N extends OpName>(op: N, inputs: readonly (Value | undefined)[], params: ParamsOf<N>): Value {
    return this.apply(op, inputs, params)[0]!
  }

  private checkDtypes<P>(op: Op<P>, place: ReturnType<typeof site<P>>): void {
    const bound = new Map<string, DType>()
    place.inputs.forEach((input, index) => {
      if (!input) return
      const parameter = op.inputTypes[Math.min(index, op.inputTypes.length - 1)]!
      const allowed = op.types[parameter] ?? [parameter]
      if (!allowed.includes(input.dtype)) place.fail(`input ${index} must be ${allowed.join(' or ')}`)
      const before = bound.get(parameter) ?? input.dtype
      if (before !== input.dtype) place.fail(`inputs of type ${parameter} must have one dtype`)
      bound.set(parameter, before)
    })
  }

  private declare(name: string, type: TensorType & Pick<Value, 'role' | 'file'>): Value {
    if (name === '') throw new GraphError('a name must not be empty')
    const shape = canonicalShape(type.shape)
    const known = this.names.get(name)
    if (known) throw new GraphError(`"${name}" is declared already, as ${describe(known)}`, { name })
    const value = this.register({ ...type, name, shape })
    this.names.set(name, value)
    return value
  }

  private register(value: Omit<Value, 'graph' | 'id' | 'producer'> & { producer?: Node }): Value {
    const made: Value = { producer: undefined, ...value, graph: this.self, id: this.allValues.length }
    this.allValues.push(made)
    return made
  }

  /** Non-negative axis of a value. */
  protected axis(value: Value, axis: number): number {
    return axis < 0 ? axis + value.shape.length : axis
  }

  /** Two operands as values of one dtype; at least one must be a value. */
  protected pair(a: ValueLike, b: ValueLike): readonly [Value, Value] {
    if (typeof a === 'number' && typeof b === 'number') {
      throw new GraphError(`one operand must be a value; got the numbers ${a} and ${b}`)
    }
    const left = typeof a === 'number' ? this.constant(a, (b as Value).dtype) : a
    return [left, typeof b === 'number' ? this.constant(b, left.dtype) : b]
  }

  /** Throws the error of an op that cannot be applied to these inputs. */
  protected refuse(op: OpName, inputs: readonly Value[], why: string): never {
    return site(op, inputs, {}).fail(why)
  }
}
