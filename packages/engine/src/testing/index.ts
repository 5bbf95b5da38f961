/** What a training core's own tests need: the conformance suite and the loss formulas in plain TypeScript. */
export * from './conformance.js'
export * from './critic-conformance.js'
export * from './reference-losses.js'
