import type { HostTensor } from './host-tensor.js'

/** Pins all of them or, if one was disposed, none. Returns how to undo it. */
export function pinAll(tensors: readonly HostTensor[]): () => void {
  const pinned: HostTensor[] = []
  const unpin = () => pinned.splice(0).forEach((tensor) => tensor.unpin())
  try {
    for (const tensor of tensors) {
      tensor.pin()
      pinned.push(tensor)
    }
  } catch (error) {
    unpin()
    throw error
  }
  return unpin
}
