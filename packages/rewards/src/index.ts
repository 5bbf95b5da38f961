/** What a result is worth. */
export * from './joint.js'
export * from './length-ratio.js'
export * from './processors.js'
