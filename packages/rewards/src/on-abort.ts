/** A signal that never fires, for callers that gave none. */
export const neverAborted: AbortSignal = new AbortController().signal

const waiting = new WeakMap<AbortSignal, Set<() => void>>()

/**
 * Calls back once when the signal fires, which it has not yet. However many wait for one signal, it has one listener: runs share
 * one signal among thousands of calls.
 *
 * @returns stops waiting
 */
export function onAbort(signal: AbortSignal, callback: () => void): () => void {
  if (signal === neverAborted) return () => {}
  let calls = waiting.get(signal)
  if (!calls) {
    const all = new Set<() => void>()
    calls = all
    waiting.set(signal, all)
    signal.addEventListener('abort', () => all.forEach((call) => call()), { once: true })
  }
  const call = () => callback() // the same function may wait twice
  calls.add(call)
  return () => void calls.delete(call)
}
