import { divideDims, multiplyDims, sameShape, shapeSize } from '../dims.js'
import { isFloat } from '../dtypes.js'
import type { Value } from '../ir.js'
import { noParams } from '../ops/inference.js'
import type { OpName } from '../ops/index.js'
import type { Dim, DType, Shape } from '../types.js'
import { ElementwiseBuilder } from './elementwise.js'

export interface ReduceOptions {
  /** Default: all. */
  readonly axes?: readonly number[]
  /** Keep reduced axes with size 1. Default false. */
  readonly keepDims?: boolean
}
type Reduction = 'ReduceSum' | 'ReduceMean' | 'ReduceMax' | 'ReduceSumSquare'

/** Ops that contract, move or pick parts of tensors. Negative axes count from the end everywhere. */
export abstract class TensorBuilder extends ElementwiseBuilder {
  private reduce(op: Reduction & OpName, x: Value, { axes, keepDims = false }: ReduceOptions): Value {
    const all = axes ?? x.shape.map((_, axis) => axis)
    return this.one(op, [x], { axes: all.map((axis) => this.axis(x, axis)).toSorted((a, b) => a - b), keepDims })
  }
  reduceSum(x: Value, options: ReduceOptions = {}): Value {
    return this.reduce('ReduceSum', x, options)
  }
  reduceMean(x: Value, options: ReduceOptions = {}): Value {
    return this.reduce('ReduceMean', x, options)
  }
  reduceMax(x: Value, options: ReduceOptions = {}): Value {
    return this.reduce('ReduceMax', x, options)
  }
  reduceSumSquare(x: Value, options: ReduceOptions = {}): Value {
    return this.reduce('ReduceSumSquare', x, options)
  }

  cumSum(
    x: Value,
    options: { readonly axis: number; readonly exclusive?: boolean; readonly reverse?: boolean },
  ): Value {
    const { axis, exclusive = false, reverse = false } = options
    return this.one('CumSum', [x], { axis: this.axis(x, axis), exclusive, reverse })
  }
  /** The k largest (or smallest) along an axis, best first, and where they are (int64). */
  topK(
    x: Value,
    k: number,
    { axis = -1, largest = true }: { readonly axis?: number; readonly largest?: boolean } = {},
  ): { readonly values: Value; readonly indices: Value } {
    const [values, indices] = this.apply('TopK', [x], { axis: this.axis(x, axis), k, largest })
    return { values: values!, indices: indices! }
  }
  /** int64; the first of equals. */
  argMax(
    x: Value,
    { axis = -1, keepDims = false }: { readonly axis?: number; readonly keepDims?: boolean } = {},
  ): Value {
    return this.one('ArgMax', [x], { axis: this.axis(x, axis), keepDims })
  }

  /** Matrices on the last two axes; the others broadcast. */
  matmul(a: Value, b: Value): Value {
    return this.one('MatMul', [a, b], noParams)
  }
  /** `alpha * A B + beta * C` of matrices, A and B transposed at will. */
  gemm(
    a: Value,
    b: Value,
    c?: Value,
    options: {
      readonly alpha?: number
      readonly beta?: number
      readonly transA?: boolean
      readonly transB?: boolean
    } = {},
  ): Value {
    const { alpha = 1, beta = 1, transA = false, transB = false } = options
    return this.one('Gemm', c ? [a, b, c] : [a, b], { alpha, beta, transA, transB })
  }

  /** The same value where it has the shape already. One size may be -1: whatever is left. */
  reshape(x: Value, shape: Shape): Value {
    const open = shape.indexOf(-1)
    if (open < 0) return sameShape(x.shape, shape) ? x : this.one('Reshape', [x], { shape })
    const left = divideDims(shapeSize(x.shape), shapeSize(shape.toSpliced(open, 1)))
    if (left === undefined) return this.refuse('Reshape', [x], `no size for the -1 in [${shape.join(', ')}] fits`)
    return this.reshape(x, shape.with(open, left))
  }
  /** Broadcasts to `shape`, in full. The same value where it has the shape already. */
  expand(x: Value, shape: Shape): Value {
    return sameShape(x.shape, shape) ? x : this.one('Expand', [x], { shape })
  }
  /** Default permutation: the axes reversed. */
  transpose(x: Value, permutation?: readonly number[]): Value {
    const order = permutation ?? x.shape.map((_, axis) => axis).toReversed()
    return this.one('Transpose', [x], { permutation: order.map((axis) => this.axis(x, axis)) })
  }
  /** Swaps the last two axes. */
  transposeLast(x: Value): Value {
    const rank = x.shape.length
    return this.transpose(x, [...x.shape.keys()].slice(0, -2).concat(rank - 1, rank - 2))
  }
  /**
   * Elements `start` (>= 0) up to `end` of one axis. Of an axis whose size is a symbol, `size` says what the piece shall
   * be called, unless it follows from start and end; the axis must then be long enough at run time.
   */
  slice(
    x: Value,
    options: { readonly axis: number; readonly start?: number; readonly end?: number; readonly size?: Dim },
  ): Value {
    const axis = this.axis(x, options.axis)
    const { start = 0, end, size } = options
    const whole = x.shape[axis] ?? 0
    const piece = size ?? pieceSize(whole, start, end)
    if (piece === undefined)
      return this.refuse('Slice', [x], `the piece from ${start} to ${end ?? 'the end'} of axis ${axis} needs a size`)
    return this.one('Slice', [x], { axis, start, end, size: piece })
  }
  /** Of axes whose sizes are symbols, `size` names the sum. */
  concat(values: readonly Value[], { axis, size }: { readonly axis: number; readonly size?: Dim }): Value {
    const at = values[0] ? this.axis(values[0], axis) : axis
    const sizes = values.map((value) => value.shape[at] ?? 0)
    const known = sizes.filter((dim) => typeof dim === 'number')
    const sum = known.length === sizes.length ? known.reduce((total, dim) => total + dim, 0) : size
    if (sum === undefined)
      return this.refuse('Concat', values, `the sum of the sizes of axis ${at} needs a name: pass size`)
    return this.one('Concat', values, { axis: at, size: sum })
  }
  /** Pieces of one axis, one after the other. */
  split(x: Value, sizes: Shape, { axis }: { readonly axis: number }): readonly Value[] {
    return this.apply('Split', [x], { axis: this.axis(x, axis), sizes })
  }
  /** Axes count in the result. */
  unsqueeze(x: Value, axes: readonly number[]): Value {
    const rank = x.shape.length + axes.length
    return this.one('Unsqueeze', [x], { axes: axes.map((axis) => (axis < 0 ? axis + rank : axis)) })
  }
  squeeze(x: Value, axes: readonly number[]): Value {
    return this.one('Squeeze', [x], { axes: axes.map((axis) => this.axis(x, axis)) })
  }
  tile(x: Value, repeats: readonly number[]): Value {
    return this.one('Tile', [x], { repeats })
  }
  /** Keeps the upper (default lower) triangle of the last two axes, from (up to) diagonal k; zero elsewhere. */
  trilu(x: Value, { upper = false, k = 0 }: { readonly upper?: boolean; readonly k?: number } = {}): Value {
    return this.one('Trilu', [x], { upper, k })
  }
  /** start, start + delta, ... below limit: scalars of one dtype. `size` says how many that makes. */
  range(start: Value, limit: Value, delta: Value, size: Dim): Value {
    return this.one('Range', [start, limit, delta], { size })
  }
  /** 0, 1, ..., size - 1. */
  iota(size: Dim, dtype: DType = 'int32'): Value {
    if (typeof size === 'number')
      return this.constant(
        Array.from({ length: size }, (_, i) => i),
        dtype,
      )
    const ones = this.full([size], 1, isFloat(dtype) ? dtype : 'float32')
    return this.cast(this.cumSum(ones, { axis: 0, exclusive: true }), dtype)
  }
  /** One number everywhere. */
  full(shape: Shape, value: number, dtype: DType): Value {
    return this.expand(this.constant(value, dtype), shape)
  }
  zeros(shape: Shape, dtype: DType = 'float32'): Value {
    return this.full(shape, 0, dtype)
  }

  /** The number of elements of a shape, as a scalar. */
  count(shape: Shape, dtype: DType = 'float32'): Value {
    const symbolic = shape.filter((dim) => typeof dim === 'string')
    const numeric = shape.reduce<number>((product, dim) => (typeof dim === 'number' ? product * dim : product), 1)
    if (symbolic.length === 0) return this.constant(numeric, dtype)
    // A sum of ones, since tensors of sizes (int64) do not reach every provider's kernels.
    return this.reduceSum(this.full([multiplyDims(...symbolic)], numeric, dtype))
  }

  /** Rows of `x` along an axis, by int32 or int64 indices of any shape. */
  gather(x: Value, indices: Value, { axis = 0 }: { readonly axis?: number } = {}): Value {
    return this.one('Gather', [x, indices], { axis: this.axis(x, axis) })
  }
  /** One element for each index: `out[i][j] = x[i][indices[i][j]]` along the last axis of a matrix. */
  gatherElements(x: Value, indices: Value, { axis = -1 }: { readonly axis?: number } = {}): Value {
    return this.one('GatherElements', [x, indices], { axis: this.axis(x, axis) })
  }
  /** Elements (or blocks) at the coordinates in the last axis of `indices`. */
  gatherND(x: Value, indices: Value, { batchDims = 0 }: { readonly batchDims?: number } = {}): Value {
    return this.one('GatherND', [x, this.cast(indices, 'int64')], { batchDims })
  }
  scatterElements(
    x: Value,
    indices: Value,
    updates: Value,
    { axis = -1, reduction = 'none' }: { readonly axis?: number; readonly reduction?: 'none' | 'add' } = {},
  ): Value {
    return this.one('ScatterElements', [x, indices, updates], { axis: this.axis(x, axis), reduction })
  }
  scatterND(
    x: Value,
    indices: Value,
    updates: Value,
    { reduction = 'none' }: { readonly reduction?: 'none' | 'add' } = {},
  ): Value {
    return this.one('ScatterND', [x, this.cast(indices, 'int64'), updates], { reduction })
  }

  softmax(x: Value, { axis = -1 }: { readonly axis?: number } = {}): Value {
    return this.one('Softmax', [x], { axis: this.axis(x, axis) })
  }
}

function pieceSize(whole: Dim, start: number, end: number | undefined): Dim | undefined {
  if (typeof whole === 'number') {
    const stop = end === undefined ? whole : end < 0 ? whole + end : Math.min(end, whole)
    return stop - start
  }
  if (end === undefined) return start === 0 ? whole : undefined
  return end >= 0 ? end - start : undefined
}
