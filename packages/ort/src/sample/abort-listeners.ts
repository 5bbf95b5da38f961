/** One listener per signal, however many wait for it: Node warns of more than ten. */
export class AbortListeners {
  readonly #waiting = new Map<
    AbortSignal,
    { readonly actions: Set<(reason: unknown) => void>; readonly run: () => void }
  >()

  /** Calls `action` with the signal's reason once it aborts. @returns what takes that back. */
  add(signal: AbortSignal | undefined, action: (reason: unknown) => void): () => void {
    if (!signal) return () => {}
    const entry = this.#waiting.get(signal) ?? this.#listen(signal)
    entry.actions.add(action)
    return () => {
      entry.actions.delete(action)
      if (entry.actions.size > 0) return
      signal.removeEventListener('abort', entry.run)
      this.#waiting.delete(signal)
    }
  }

  #listen(signal: AbortSignal) {
    const actions = new Set<(reason: unknown) => void>()
    const run = () => {
      this.#waiting.delete(signal)
      for (const action of actions) action(signal.reason)
    }
    const entry = { actions, run }
    this.#waiting.set(signal, entry)
    signal.addEventListener('abort', run, { once: true })
    return entry
  }
}
