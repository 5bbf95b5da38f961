/** Runs graphs on onnxruntime-node's own binding. For tests. */
import * as ort from 'onnxruntime-node'
import { bindSymbols, evaluateShape } from '../dims.js'
import type { DType, SerialisedModel } from '../types.js'

type Numbers = ArrayLike<number>

export interface Fed {
  readonly dims: readonly number[]
  readonly data: Numbers
}

const arrays = {
  float32: (data: Numbers) => Float32Array.from(data),
  float64: (data: Numbers) => Float64Array.from(data),
  int32: (data: Numbers) => Int32Array.from(data),
  int64: (data: Numbers) => BigInt64Array.from(Array.from(data), BigInt),
  bool: (data: Numbers) => Uint8Array.from(data),
  uint8: (data: Numbers) => Uint8Array.from(data),
}

function tensor(dtype: DType, data: Numbers, dims: readonly number[]): ort.Tensor {
  if (dtype === 'float16' || dtype === 'bfloat16') throw new Error(`the test runner does not feed ${dtype}`)
  return new ort.Tensor(dtype as 'float32', arrays[dtype](data) as Float32Array, dims)
}

/** A model that is loaded once and run many times. Shape inputs are filled in. */
export class TestSession {
  private readonly model: SerialisedModel
  private readonly session: ort.InferenceSession

  private constructor(model: SerialisedModel, session: ort.InferenceSession) {
    this.model = model
    this.session = session
  }

  static async create(model: SerialisedModel, options: ort.InferenceSession.SessionOptions = {}): Promise<TestSession> {
    const session = await ort.InferenceSession.create(model.bytes, {
      logSeverityLevel: 3,
      intraOpNumThreads: 1,
      ...options,
    })
    return new TestSession(model, session)
  }

  async run(inputs: Readonly<Record<string, Fed>>): Promise<Record<string, { dims: number[]; data: number[] }>> {
    const feeds: Record<string, ort.Tensor> = {}
    for (const { name, dtype } of this.model.inputs) {
      const fed = inputs[name]
      if (!fed) throw new Error(`nothing was fed to "${name}"`)
      feeds[name] = tensor(dtype, fed.data, fed.dims)
    }
    const sizes = bindSymbols(
      this.model.inputs,
      Object.fromEntries(this.model.inputs.map(({ name }) => [name, inputs[name]!.dims])),
    )
    for (const { name, dims } of this.model.shapeInputs) {
      feeds[name] = tensor('int64', evaluateShape(dims, sizes), [dims.length])
    }
    const results = await this.session.run(feeds)
    return Object.fromEntries(
      Object.entries(results).map(([name, result]) => [
        name,
        { dims: [...result.dims], data: Array.from(result.data as Float32Array, Number) },
      ]),
    )
  }

  async dispose(): Promise<void> {
    await this.session.release()
  }
}

/** Loads, runs once, frees. */
export async function runOnce(model: SerialisedModel, inputs: Readonly<Record<string, Fed>>) {
  const session = await TestSession.create(model)
  try {
    return await session.run(inputs)
  } finally {
    await session.dispose()
  }
}
