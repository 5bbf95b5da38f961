import { InvalidInputError } from '@selfplay/engine'
import type { DType } from '../graph/index.js'
import type { HostArrays, Runtime, Tensor } from '../runtime/index.js'
import type { StepRows } from './step-model.js'

/** The tensors that a step reads and writes, and the arrays over them. */
export interface RowTensors {
  readonly rows: StepRows
  /** The largest position + 1, one number. */
  readonly totalLength: Int32Array
  /** What the filtered draw says about its candidates, int32 [S]. */
  readonly below: Int32Array
  /** Views of the own inputs and outputs of so many steps of so many rows, by name; the caller disposes them. */
  views(rows: number, steps: number): Readonly<Record<'inputs' | 'outputs', Record<string, Tensor>>>
  /** What draws read and write after a single step, by name. */
  readonly draw: Readonly<
    Record<
      | 'logits'
      | 'uniform'
      | 'inverse_temperature'
      | 'top_k'
      | 'top_p'
      | 'token'
      | 'probability'
      | 'kept_mass'
      | 'below',
      Tensor
    >
  >
  dispose(): void
}

/** @param most steps of a call. */
export function allocateRows(runtime: Runtime, slots: number, vocabSize: number, most: number): RowTensors {
  const all: Tensor[] = []
  const make = <D extends DType>(dtype: D, dims: readonly number[]) => {
    const tensor = runtime.allocate(dtype, dims)
    all.push(tensor)
    return tensor
  }
  const tokens = make('int32', [slots])
  const positions = make('int32', [slots])
  const totalLength = make('int32', [])
  const uniform = make('float32', [slots * most * 2])
  const token = make('int32', [slots * most])
  const probability = make('float32', [slots * most])
  const of = <D extends DType>(tensor: Tensor<D>, dims: readonly number[]) => runtime.view(tensor, 0, dims)
  const ofSingle = <D extends DType>(tensor: Tensor<D>, dims: readonly number[]) => {
    const view = of(tensor, dims)
    all.push(view)
    return view
  }
  const draw = {
    logits: make('float32', [slots, vocabSize]),
    uniform: ofSingle(uniform, [slots, 2]),
    inverse_temperature: make('float32', [slots]),
    top_k: make('int32', [slots]),
    top_p: make('float32', [slots]),
    token: ofSingle(token, [slots]),
    probability: ofSingle(probability, [slots]),
    kept_mass: make('float32', [slots]),
    below: make('int32', [slots]),
  }
  host(draw.inverse_temperature).fill(1)
  host(draw.top_k).fill(1)
  host(draw.top_p).fill(1)
  return {
    rows: {
      token: host(tokens),
      position: host(positions),
      uniform: host(uniform),
      inverseTemperature: host(draw.inverse_temperature),
      topK: host(draw.top_k),
      topP: host(draw.top_p),
      drawn: host(token),
      probability: host(probability),
      keptMass: host(draw.kept_mass),
    },
    totalLength: host(totalLength),
    below: host(draw.below),
    views: (rows, steps) => {
      const drawn = steps === 1 ? [rows] : [rows, steps]
      return {
        inputs: {
          tokens: of(tokens, [rows]),
          positions: of(positions, [rows]),
          total_length: of(totalLength, []),
          uniform: of(uniform, [rows, 2 * steps]),
          inverse_temperature: of(draw.inverse_temperature, [rows]),
        },
        outputs: {
          token: of(token, drawn),
          probability: of(probability, drawn),
          ...(steps === 1 && { logits: of(draw.logits, [rows, vocabSize]) }),
        },
      }
    },
    draw,
    dispose: () => all.forEach((tensor) => tensor.dispose()),
  }
}

/** Below it, a step takes hardly less time for fewer rows. */
const LEAST_ROWS = 4

/**
 * The numbers of rows that steps of S rows may advance, ascending: S, half of them, and so on. No fewer than four, for products of a
 * single row are computed in another way, and what is drawn for a row must not depend on how many there are.
 */
export function rowSpans(slots: number): number[] {
  const spans = [slots]
  for (let rows = Math.ceil(slots / 2); rows >= LEAST_ROWS && rows < spans[0]!; rows = Math.ceil(rows / 2))
    spans.unshift(rows)
  return spans
}

/** The memory of a tensor. @throws InvalidInputError where it lies on a device. */
export function host<D extends DType>(tensor: Tensor<D>): HostArrays[D] {
  if (tensor.data !== undefined) return tensor.data
  throw new InvalidInputError('the sampler needs a runtime whose tensors lie in host memory: use provider "cpu"')
}

/** How many candidates a filtered draw sorts: few at first, all at last. */
export function candidateLevels(vocabSize: number): number[] {
  return [...[64, 512, 4096, 32768].filter((level) => level < vocabSize), vocabSize]
}

/** The first level that holds every top-k; `nucleusLevel` where a row has none. */
export function startLevel(levels: readonly number[], topK: Int32Array, nucleusLevel: number): number {
  let most = 1
  let start = 0
  for (const k of topK) {
    if (k > most) most = k
    if (k === 0) start = nucleusLevel
  }
  while (levels[start]! < most) start++
  return start
}
