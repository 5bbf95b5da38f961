import { booleans, numbers } from '../dtypes.js'
import type { Op } from '../ir.js'
import { binary, broadcast, type NoParams, unary } from './inference.js'

const where: Op<NoParams> = {
  domain: '',
  since: 16,
  inputTypes: ['B', 'T', 'T'],
  outputTypes: ['T'],
  types: { B: booleans, T: numbers },
  infer: (site) => {
    const then = site.input(1)
    return [{ dtype: then.dtype, shape: broadcast(site, site.input(0), then, site.input(2)) }]
  },
}

export const compare = {
  Equal: binary(19, [...numbers, 'bool'], 'bool'),
  Less: binary(13, numbers, 'bool'),
  Greater: binary(13, numbers, 'bool'),
  LessOrEqual: binary(16, numbers, 'bool'),
  GreaterOrEqual: binary(16, numbers, 'bool'),
  And: binary(7, booleans, 'bool'),
  Not: unary(1, booleans),
  Where: where,
} satisfies Record<string, Op<never>>
