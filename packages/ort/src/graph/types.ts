export type DType = 'float32' | 'float64' | 'float16' | 'bfloat16' | 'int32' | 'int64' | 'bool' | 'uint8'

/** A size that is known (number), or a symbol, or a product of symbols and numbers such as `"batch*seq"` or `"2*batch"` (canonical: number first, then symbols sorted). */
export type Dim = number | string
export type Shape = readonly Dim[]

export type Provider = 'cpu' | 'cuda' | 'webgpu' | 'wasm'

export interface TensorSpec {
  readonly name: string
  readonly dtype: DType
  readonly shape: Shape
}

/** Where the bytes of an external weight lie; without it, the session gets them as a tensor by name. */
export interface WeightFile {
  readonly path: string
  readonly offset: number
  readonly length: number
}

/** A graph as ONNX bytes, with what a runtime must know to run it. */
export interface SerialisedModel {
  readonly bytes: Uint8Array
  /** Inputs that the caller feeds, in order. */
  readonly inputs: readonly TensorSpec[]
  readonly outputs: readonly TensorSpec[]
  /**
   * int64 rank-1 inputs that the runtime feeds by itself: their values are the sizes of `dims`, with symbols resolved
   * from the shapes of the other inputs.
   */
  readonly shapeInputs: readonly { readonly name: string; readonly dims: Shape }[]
  /** External weights (frozen). */
  readonly weights: readonly (TensorSpec & { readonly file?: WeightFile })[]
}
