import { sameShape } from '../dims.js'
import { floats } from '../dtypes.js'
import { float, int, type Op, type Site } from '../ir.js'
import type { Shape } from '../types.js'
import { broadcastShapes, checkAxis } from './inference.js'

export interface NormParams {
  /** First of the axes that are normalised together. */
  readonly axis: number
  readonly epsilon: number
}

/** Checks scale (and bias); returns the shape of the statistics. */
function statistics(site: Site<NormParams>): Shape {
  const { shape } = site.input(0)
  const { axis, epsilon } = site.params
  checkAxis(site, axis, shape.length)
  if (!(epsilon > 0)) site.fail(`epsilon must be positive, not ${epsilon}`)
  const normalised = shape.slice(axis)
  site.inputs.slice(1).forEach((value) => {
    const fits = value && broadcastShapes(normalised, value.shape)
    if (value && !(fits && sameShape(fits, normalised))) {
      site.fail(`scale and bias must broadcast to [${normalised.join(', ')}]`)
    }
  })
  return shape.map((dim, i) => (i < axis ? dim : 1))
}

const attributes = ({ axis, epsilon }: NormParams) => ({
  axis: int(axis),
  epsilon: float(epsilon),
  stash_type: int(1),
})

const layerNormalization: Op<NormParams> = {
  domain: '',
  since: 17,
  inputTypes: ['T', 'T', 'T'],
  outputTypes: ['T', 'U', 'U'],
  types: { T: floats },
  requiredOutputs: 1,
  infer: (site) => {
    const shape = statistics(site)
    const { dtype, shape: whole } = site.input(0)
    return [
      { dtype, shape: whole },
      { dtype: 'float32', shape },
      { dtype: 'float32', shape },
    ]
  },
  lower: (inputs, params) => ({ inputs, attributes: attributes(params) }),
}

/**
 * onnxruntime's own; it stands in the ONNX domain. `y = x / sqrt(mean(x^2) + epsilon) * scale`. Over the last axis only:
 * for others onnxruntime 1.30 infers a wrong shape of the statistics and then refuses the graph.
 */
const simplifiedLayerNormalization: Op<NormParams> = {
  domain: '',
  since: 1,
  inputTypes: ['T', 'V'],
  outputTypes: ['V', 'U'],
  types: { T: floats, V: floats },
  requiredOutputs: 1,
  infer: (site) => {
    const shape = statistics(site)
    const x = site.input(0)
    const scale = site.input(1)
    if (site.params.axis !== x.shape.length - 1) site.fail('only the last axis can be normalised')
    if (x.dtype !== scale.dtype) site.fail('input and scale must have one dtype')
    return [
      { dtype: x.dtype, shape: x.shape },
      { dtype: 'float32', shape },
    ]
  },
  lower: (inputs, params) => ({ inputs, attributes: attributes(params) }),
}

export const normalisation = {
  LayerNormalization: layerNormalization,
  SimplifiedLayerNormalization: simplifiedLayerNormalization,
} satisfies Record<string, Op<never>>
