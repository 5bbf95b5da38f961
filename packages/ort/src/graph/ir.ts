import type { Graph } from './graph.js'
import type { OpName, ParamsOf } from './ops/index.js'
import { describe, GraphError } from './errors.js'
import type { DType, Shape, WeightFile } from './types.js'

export interface TensorType {
  readonly dtype: DType
  readonly shape: Shape
}

/** Where a value comes from: fed by the caller (trainable or not), frozen outside the model, written into it, or computed. */
export type ValueRole = 'input' | 'parameter' | 'weight' | 'constant' | 'result'

/** A tensor in a graph. Made by a {@link Graph}, never by hand. */
export interface Value extends TensorType {
  readonly graph: Graph
  /** Unique in its graph. */
  readonly id: number
  readonly name: string
  readonly role: ValueRole
  /** The node whose result this is; undefined unless `role` is `result`. */
  readonly producer: Node | undefined
  /** Little-endian bytes of a constant. */
  readonly bytes?: Uint8Array
  /** Where a weight lies on disk. */
  readonly file?: WeightFile
}

/** One application of an op. `params` are what ONNX spreads over attributes and constant inputs. */
export interface Node<N extends OpName = OpName> {
  readonly id: number
  readonly op: N
  readonly inputs: readonly (Value | undefined)[]
  readonly params: ParamsOf<N>
  readonly outputs: readonly Value[]
}

export type Attribute =
  | { readonly type: 'int'; readonly value: number }
  | { readonly type: 'float'; readonly value: number }
  | { readonly type: 'string'; readonly value: string }
  | { readonly type: 'ints'; readonly value: readonly number[] }
export type Attributes = Readonly<Record<string, Attribute>>

export const int = (value: number | boolean): Attribute => ({ type: 'int', value: Number(value) })
export const float = (value: number): Attribute => ({ type: 'float', value })
export const string = (value: string): Attribute => ({ type: 'string', value })
export const ints = (value: readonly number[]): Attribute => ({ type: 'ints', value })

/** A small constant that exists only in the ONNX form of a node. */
export interface Literal {
  readonly dtype: DType
  readonly shape: readonly number[]
  readonly values: readonly number[]
}
/** An int64 vector of sizes that the runtime fills in. */
interface Sizes {
  readonly dims: Shape
}
export type Operand = Value | Literal | Sizes | undefined

export const vector = (values: readonly number[], dtype: DType = 'int64'): Literal => ({
  dtype,
  shape: [values.length],
  values,
})
export const scalar = (value: number, dtype: DType = 'int64'): Literal => ({ dtype, shape: [], values: [value] })

/** The ONNX form of a node: operands in ONNX order, and attributes. */
export interface Lowered {
  readonly inputs: readonly Operand[]
  readonly attributes: Attributes
}

/** What inference sees: the inputs, the parameters, and a way to refuse them. */
export interface Site<P> {
  readonly op: string
  readonly inputs: readonly (Value | undefined)[]
  readonly params: P
  /** The input at `index`, which must be there. */
  input(index: number): Value
  /** Throws a {@link GraphError} that names the op and the types of all inputs. */
  fail(why: string): never
}

/** One operator: its place in the ONNX standard, its types, and its shape rule. */
export interface Op<P> {
  readonly domain: '' | 'com.microsoft'
  /** `since_version` of the schema at opset 21 (contrib: 1). Kernels are looked up by it. */
  readonly since: number
  /** ONNX type parameter of each operand in ONNX order; the last one repeats. `tensor(...)` fixed types are spelt as dtypes. */
  readonly inputTypes: readonly string[]
  readonly outputTypes: readonly string[]
  /** Dtypes that a type parameter may take. */
  readonly types: Readonly<Record<string, readonly DType[]>>
  /** How many leading outputs ONNX demands; those after may be left out when nothing reads them. Default: all. */
  readonly requiredOutputs?: number
  infer(site: Site<P>): readonly TensorType[]
  /** Default: the inputs as they are, no attributes. */
  lower?(inputs: readonly (Value | undefined)[], params: P): Lowered
}

export function site<P>(op: string, inputs: readonly (Value | undefined)[], params: P): Site<P> {
  const fail = (why: string): never => {
    const got = inputs.map((value) => (value ? `${value.name}: ${describe(value)}` : 'nothing'))
    throw new GraphError(`${op}: ${why}; got ${got.join(' and ') || 'no inputs'}`, {
      op,
      inputs: inputs.map((value) => value && { name: value.name, dtype: value.dtype, shape: value.shape }),
      params,
    })
  }
  const input = (index: number): Value => inputs[index] ?? fail(`input ${index} is missing`)
  return { op, inputs, params, input, fail }
}
