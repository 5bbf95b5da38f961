import type { Runtime, Tensor } from '../runtime/types.js'

/** A trained tensor: its weights live here, whoever reads them. */
export interface Parameter {
  /** Hugging Face or PEFT name. */
  readonly name: string
  readonly shape: readonly number[]
  readonly weight: Tensor<'float32'>
}

/** Tensors of the same names and sizes as a list of parameters: gradients, Adam moments. */
export type Companions = ReadonlyMap<string, Tensor<'float32'>>

export const elements = (shape: readonly number[]): number => shape.reduce((a, b) => a * b, 1)

/** How many numbers a list of parameters holds. */
export const parameterCount = (parameters: readonly Parameter[]): number =>
  parameters.reduce((sum, { shape }) => sum + elements(shape), 0)

/** Lists of up to this many numbers lie in one block of memory, so that elementwise arithmetic takes them as one tensor. */
const BLOCK = 1 << 24

/** Zeroed tensors of these shapes, those of a short list one behind the other in memory. */
function allocateAll(runtime: Runtime, shapes: readonly (readonly number[])[]): Tensor<'float32'>[] {
  const total = shapes.reduce((sum, shape) => sum + elements(shape), 0)
  if (total > BLOCK) return shapes.map((shape) => runtime.allocate('float32', shape))
  const block = runtime.allocate('float32', [total])
  let at = 0
  const parts = shapes.map((shape) => {
    at += elements(shape)
    return runtime.view(block, at - elements(shape), shape)
  })
  block.dispose() // it goes with the last of its parts
  return parts
}

/** Zeroed tensors, one per parameter. */
export function companions(runtime: Runtime, parameters: readonly Pick<Parameter, 'name' | 'shape'>[]): Companions {
  const tensors = allocateAll(
    runtime,
    parameters.map(({ shape }) => shape),
  )
  return new Map(parameters.map(({ name }, i) => [name, tensors[i]!]))
}

export function disposeAll(tensors: Iterable<Tensor>): void {
  for (const tensor of tensors) tensor.dispose()
}
