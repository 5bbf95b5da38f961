/** A signal that nobody aborts, for calls that were given none. */
export const neverAborted: AbortSignal = new AbortController().signal

interface Listeners {
  readonly calls: Set<() => void>
  readonly heard: () => void
}

/** One real listener per signal, however many calls wait for it: thousands of rollouts share one signal. */
const waiting = new WeakMap<AbortSignal, Listeners>()

/** Calls back once when the signal aborts. @returns lets go of it; nothing stays on the signal then */
export function onAbort(signal: AbortSignal, callback: () => void): () => void {
  if (signal === neverAborted) return () => {}
  let listeners = waiting.get(signal)
  if (!listeners) {
    const calls = new Set<() => void>()
    const heard = () => {
      waiting.delete(signal)
      for (const call of calls) call()
    }
    listeners = { calls, heard }
    waiting.set(signal, listeners)
    signal.addEventListener('abort', heard, { once: true })
  }
  const { calls, heard } = listeners
  const call = () => callback() // the same callback may wait twice
  calls.add(call)
  return () => {
    calls.delete(call)
    if (calls.size > 0 || waiting.get(signal)?.calls !== calls) return
    waiting.delete(signal)
    signal.removeEventListener('abort', heard)
  }
}
