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

/** Zeroed tensors, one per parameter. */
export function companions(runtime: Runtime, parameters: readonly Parameter[]): Companions {
  return new Map(parameters.map(({ name, shape }) => [name, runtime.allocate('float32', shape)]))
}

export function disposeAll(tensors: Iterable<Tensor>): void {
  for (const tensor of tensors) tensor.dispose()
}
