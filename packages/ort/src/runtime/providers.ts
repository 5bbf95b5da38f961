import { loadBinding } from './binding-library.js'
import { loadCApi, type Pointer, pointers } from './c-api.js'
import { libraryPath } from './library.js'
import type { Runtime } from './types.js'

/** The execution providers built into the shipped library, by onnxruntime's own names. */
export async function shippedProviders(kind: Runtime['kind']): Promise<string[]> {
  if (kind === 'binding') return loadBinding().backends.map(({ name }) => name)
  const api = await loadCApi(libraryPath())
  const list = pointers(1)
  const count = new Int32Array(new ArrayBuffer(8))
  api.call('GetAvailableProviders', list, count)
  try {
    const { koffi } = api
    const names = koffi.decode(list[0], koffi.array('void *', count[0]!)) as Pointer[]
    return names.map((name) => koffi.decode.string(name))
  } finally {
    api.call('ReleaseAvailableProviders', list[0]!, count[0]!)
  }
}
