/** Model names to local folders. */
export * from './errors.js'
export { resolveModel, type ResolveModelOptions } from './resolve.js'
export { classifySource, type ModelSource } from './source.js'
