export { differentiate, gradientName, type DifferentiateOptions, type Gradients, type Seed } from './differentiate.js'
export type { Stop } from './rule.js'
