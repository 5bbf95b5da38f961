import type { Op } from '../ir.js'
import { activation } from './activation.js'
import { attention } from './attention.js'
import { compare } from './compare.js'
import { elementwise } from './elementwise.js'
import { gather } from './gather.js'
import { matmul } from './matmul.js'
import { normalisation } from './normalisation.js'
import { reduce } from './reduce.js'
import { shape } from './shape.js'

/** Every operator that a graph can hold. Gradient rules are a table of the same keys. */
export const ops = {
  ...elementwise,
  ...activation,
  ...compare,
  ...reduce,
  ...matmul,
  ...shape,
  ...gather,
  ...normalisation,
  ...attention,
}

export type OpName = keyof typeof ops
export type ParamsOf<N extends OpName> = (typeof ops)[N] extends Op<infer P> ? P : never
