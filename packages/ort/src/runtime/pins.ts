import type { Tensor } from './types.js'

/** A tensor whose memory stays while it is pinned, also where it is disposed meanwhile. */
export interface PinnableTensor extends Tensor {
  /** @throws DisposedError */
  pin(): void
  unpin(): void
}

/** Pins all of them or, if one was disposed, none. Returns how to undo it. */
export function pinAll(tensors: readonly PinnableTensor[]): () => void {
  const pinned: PinnableTensor[] = []
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
