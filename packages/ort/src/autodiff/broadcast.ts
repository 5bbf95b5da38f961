import { sameShape, type Shape, type Value } from '../graph/index.js'

/** Sums a gradient over the axes along which an operand of this shape was broadcast. */
export function sumTo(gradient: Value, shape: Shape): Value {
  if (sameShape(gradient.shape, shape)) return gradient
  const g = gradient.graph
  const extra = gradient.shape.length - shape.length
  const axes = [...gradient.shape.keys()].filter(
    (axis) => axis < extra || (shape[axis - extra] === 1 && gradient.shape[axis] !== 1),
  )
  const onlyLeading = axes.every((axis) => axis < extra)
  const sum = axes.length === 0 ? gradient : g.reduceSum(gradient, { axes, keepDims: !onlyLeading })
  return g.reshape(sum, shape)
}

/** A product with a gradient, summed to the operand's shape. `full` says how to make the gradient's own shape if need be. */
export function productTo(compact: Value, factor: Value, shape: Shape, whole: Shape, full: () => Value): Value {
  const g = compact.graph
  const product = g.mul(compact, factor)
  if (sameShape(product.shape, whole)) return sumTo(product, shape)
  return sumTo(g.mul(full(), factor), shape)
}
