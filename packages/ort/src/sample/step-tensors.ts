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
  /** The step's own inputs, by name. */
  readonly step: { readonly inputs: Readonly<Record<string, Tensor>> }
  /** What draws read and write, by name. */
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

export function allocateRows(runtime: Runtime, slots: number, vocabSize: number): RowTensors {
  const all: Tensor[] = []
  const make = <D extends DType>(dtype: D, dims: readonly number[]) => {
    const tensor = runtime.allocate(dtype, dims)
    all.push(tensor)
    return tensor
  }
  const tokens = make('int32', [slots])
  const positions = make('int32', [slots])
  const totalLength = make('int32', [])
  const draw = {
    logits: make('float32', [slots, vocabSize]),
    uniform: make('float32', [slots, 2]),
    inverse_temperature: make('float32', [slots]),
    top_k: make('int32', [slots]),
    top_p: make('float32', [slots]),
    token: make('int32', [slots]),
    probability: make('float32', [slots]),
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
      uniform: host(draw.uniform),
      inverseTemperature: host(draw.inverse_temperature),
      topK: host(draw.top_k),
      topP: host(draw.top_p),
      drawn: host(draw.token),
      probability: host(draw.probability),
      keptMass: host(draw.kept_mass),
    },
    totalLength: host(totalLength),
    below: host(draw.below),
    step: {
      inputs: {
        tokens,
        positions,
        total_length: totalLength,
        uniform: draw.uniform,
        inverse_temperature: draw.inverse_temperature,
      },
    },
    draw,
    dispose: () => all.forEach((tensor) => tensor.dispose()),
  }
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
