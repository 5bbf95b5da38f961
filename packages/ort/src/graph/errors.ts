import { SelfplayError } from '@selfplay/engine'
import type { DType, Shape } from './types.js'

/** A graph that cannot be built as asked: wrong shapes, dtypes, names or parameters. `details` holds the op and its inputs. */
export class GraphError extends SelfplayError {
  constructor(message: string, details?: Record<string, unknown>) {
    super('graph', message, details)
  }
}

/** `float32[batch, 784]` */
export function describe(tensor: { dtype: DType; shape: Shape }): string {
  return `${tensor.dtype}[${tensor.shape.join(', ')}]`
}
