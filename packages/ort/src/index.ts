/** A training core on stock onnxruntime: graphs, gradients, decoder models, sampling, checkpoints. */
export * from './autodiff/index.js'
export * from './checkpoint/index.js'
export * from './graph/index.js'
export * from './hub/index.js'
export * from './load.js'
export * from './models/index.js'
export * from './runtime/index.js'
export * from './sample/index.js'
