/**
 * Looks up whether every node of a graph has a kernel in onnxruntime's execution providers.
 *
 * The tables (`fixtures/kernels/*.json`) are data for tests, so they are passed in. A node passes on a provider if a
 * registration covers the op's version at our opset and takes the dtype of every operand that it constrains: float32
 * data, and also the int64 operands (shapes, axes, coordinates, positions), which count as fine exactly where the
 * kernel's own type parameter lists int64. On WebGPU the table is a measurement by the dtype of the data operand; small
 * int64 operands live in host memory there, but an op on int64 data is a miss.
 */
import type { Node, Op, Operand, Value } from './ir.js'
import { ops } from './ops/index.js'
import { ancestors, lowerNode } from './serialise.js'
import type { DType, Provider } from './types.js'

interface Registration {
  readonly since: number
  readonly until: number | null
  readonly types: Readonly<Record<string, readonly string[]>>
}
interface RegisteredOp {
  readonly kernels?: readonly Registration[]
  readonly by_version?: readonly Registration[]
}
interface ProbedOp {
  readonly ranges: readonly (readonly [number, number | null])[]
  readonly types: Readonly<Record<string, string | Readonly<Record<string, string>>>> | null
}

/** The parsed tables. */
export interface KernelTables {
  readonly cpu: Readonly<Record<string, unknown>>
  readonly cuda: Readonly<Record<string, unknown>>
  readonly webgpu: Readonly<Record<string, unknown>>
}

export interface MissingKernel {
  readonly provider: Provider
  readonly op: string
  readonly node: string
  readonly types: Readonly<Record<string, DType>>
}

const typeNames: Readonly<Record<DType, string>> = {
  float32: 'float',
  float64: 'double',
  float16: 'float16',
  bfloat16: 'bfloat16',
  int32: 'int32',
  int64: 'int64',
  bool: 'bool',
  uint8: 'uint8',
}
const shortNames: Readonly<Record<DType, string>> = {
  float32: 'f32',
  float64: 'f64',
  float16: 'f16',
  bfloat16: 'bf16',
  int32: 'i32',
  int64: 'i64',
  bool: 'bool',
  uint8: 'u8',
}

/** What the nodes behind these values lack, on the providers that their graph declares (or on those given). */
export function missingKernels(
  values: readonly Value[],
  tables: KernelTables,
  providers: readonly Provider[] = values[0]?.graph.providers ?? [],
): readonly MissingKernel[] {
  return ancestors(values).flatMap((node) => {
    const op: Op<never> = ops[node.op]
    const key = `${op.domain || 'ai.onnx'}::${node.op}`
    const types = boundTypes(node, op)
    return providers
      .filter((provider) => !hasKernel(provider, key, op, types, tables))
      .map((provider) => ({ provider, op: key, node: `${node.op}_${node.id}`, types }))
  })
}

/** The dtype that each ONNX type parameter takes in a node. */
function boundTypes(node: Node, op: Op<never>): Record<string, DType> {
  const types: Record<string, DType> = {}
  const bind = (parameters: readonly string[], dtypes: readonly (DType | undefined)[]) => {
    dtypes.forEach((dtype, index) => {
      const parameter = parameters[Math.min(index, parameters.length - 1)]!
      if (dtype) types[parameter] ??= dtype
    })
  }
  bind(op.inputTypes, lowerNode(node).inputs.map(operandType))
  bind(
    op.outputTypes,
    node.outputs.map(({ dtype }) => dtype),
  )
  return types
}

function operandType(operand: Operand): DType | undefined {
  return operand && ('dims' in operand ? 'int64' : operand.dtype)
}

function hasKernel(
  provider: Provider,
  key: string,
  { since, inputTypes }: Op<never>,
  types: Readonly<Record<string, DType>>,
  tables: KernelTables,
): boolean {
  if (provider === 'webgpu') {
    const data = types[inputTypes.includes('T') ? 'T' : inputTypes[0]!]!
    return hasProbe(tables.webgpu[key] as ProbedOp | undefined, since, data, types['T2'])
  }
  const entry = tables[provider === 'wasm' ? 'cpu' : provider][key] as RegisteredOp | undefined
  return (entry?.kernels ?? entry?.by_version ?? []).some(
    (kernel) =>
      covers(kernel.since, kernel.until, since) &&
      Object.entries(types).every(([parameter, dtype]) => kernel.types[parameter]?.includes(typeNames[dtype]) ?? true),
  )
}

/** onnxruntime's rule: an open-ended registration serves its own version only. */
function covers(since: number, until: number | null, version: number): boolean {
  return since === version || (until !== null && since <= version && version <= until)
}

/** `-` stands for ops on bool only. Ops without parsed ranges were measured at our opset all the same. */
function hasProbe(entry: ProbedOp | undefined, since: number, data: DType, to: DType | undefined): boolean {
  if (!entry?.types) return false
  if (entry.ranges.length > 0 && !entry.ranges.some(([from, until]) => covers(from, until, since))) return false
  const found = entry.types[shortNames[data]] ?? (data === 'bool' ? entry.types['-'] : undefined)
  if (typeof found === 'string' || found === undefined) return found?.startsWith('webgpu') ?? false
  return Object.entries(found).some(
    ([variant, where]) => variant.endsWith(`->${to && shortNames[to]}`) && where.startsWith('webgpu'),
  )
}
