import { createRequire } from 'node:module'
import { messageOf, RuntimeUnavailableError } from './errors.js'
import { disableTelemetry } from './telemetry.js'

/** An onnxruntime-node tensor. */
export interface BindingTensor {
  readonly dims: readonly number[]
  readonly data: unknown
}

/** A session of onnxruntime-node's native part: synchronous, unlike what its package exports. */
export interface BindingHandle {
  loadModel(buffer: ArrayBufferLike, byteOffset: number, byteLength: number, options: object): void
  run(
    feeds: Readonly<Record<string, BindingTensor>>,
    fetches: Readonly<Record<string, BindingTensor | null>>,
    options: object,
  ): Record<string, BindingTensor>
  dispose(): void
}

/** onnxruntime-node, loaded. */
export interface BindingLibrary {
  readonly version: string
  readonly InferenceSession: new () => BindingHandle
  readonly Tensor: new (type: string, data: unknown, dims: readonly number[]) => BindingTensor
  /** Execution providers that this build knows, and whether their libraries are in the package. */
  readonly backends: readonly { readonly name: string; readonly bundled: boolean }[]
}

interface NativePart {
  readonly binding: {
    readonly InferenceSession: BindingLibrary['InferenceSession']
    readonly listSupportedBackends: () => BindingLibrary['backends']
  }
  readonly initOrt: () => void
}

let library: BindingLibrary | undefined

/** @throws RuntimeUnavailableError where it cannot be loaded. */
export function loadBinding(): BindingLibrary {
  if (library) return library
  disableTelemetry()
  try {
    const require = createRequire(import.meta.url)
    const { Tensor } = require('onnxruntime-node') as Pick<BindingLibrary, 'Tensor'>
    const { binding, initOrt } = require('onnxruntime-node/dist/binding.js') as NativePart
    const { version } = require('onnxruntime-node/package.json') as { version: string }
    initOrt()
    library = { version, Tensor, InferenceSession: binding.InferenceSession, backends: binding.listSupportedBackends() }
    return library
  } catch (cause) {
    throw new RuntimeUnavailableError(`cannot load onnxruntime-node: ${messageOf(cause)}`, {}, { cause })
  }
}
