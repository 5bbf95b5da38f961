/** The contract between training loops and training cores. */
export * from './check-options.js'
export * from './critic.js'
export * from './datum.js'
export * from './errors.js'
export * from './loss.js'
export * from './sampling.js'
export * from './schemas.js'
export * from './training.js'
