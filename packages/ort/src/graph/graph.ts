import { z } from 'zod'
import { NeuralBuilder } from './build/neural.js'
import { GraphError } from './errors.js'
import type { Value } from './ir.js'
import { serialise } from './serialise.js'
import type { Provider, SerialisedModel } from './types.js'

const providerNames = ['cpu', 'cuda', 'webgpu', 'wasm'] as const satisfies readonly Provider[]

/** Schema of the options of {@link graph}. */
export const graphOptionsSchema = z.strictObject({
  providers: z.array(z.enum(providerNames)).min(1).optional(),
})

export interface GraphOptions {
  /** Where the graph is meant to run. Default: cpu, cuda and webgpu. */
  readonly providers?: readonly Provider[]
}

/** A growing ONNX graph. Every method adds nodes and returns their values; shapes and dtypes are checked at once. */
export class Graph extends NeuralBuilder {
  protected readonly self: Graph = this

  /** The part of the graph that these values need, as a model; each value is an output under its key. */
  outputs(outputs: Readonly<Record<string, Value>>): SerialisedModel {
    return serialise(this, outputs)
  }
}

/** An empty graph of ONNX opset 21, IR version 10. */
export function graph(options: GraphOptions = {}): Graph {
  const parsed = graphOptionsSchema.safeParse(options)
  if (!parsed.success) {
    throw new GraphError(
      `graph options: ${z.prettifyError(parsed.error)}; "providers" may list ${providerNames.join(', ')}`,
    )
  }
  return new Graph(parsed.data.providers ?? ['cpu', 'cuda', 'webgpu'])
}
