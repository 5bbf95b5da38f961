import type { Group } from './group.js'
import type { PrefilledPrompt } from './step-model.js'

interface Entry {
  users: number
  prefilled: PrefilledPrompt | undefined
}

/**
 * Prefilled prompts, kept as long as a completion that starts from them waits. Equal prompts of equal weights are run once.
 */
export class PromptStore {
  readonly #entries = new Map<string, Entry>()
  readonly #keys = new Map<Group, string>()

  /** Announces a group: its prompt is worth keeping until `release`. */
  retain(group: Group): void {
    const key = `${group.version}:${group.task.prompt.join(',')}`
    const entry = this.#entries.get(key)
    if (entry) entry.users++
    else this.#entries.set(key, { users: 1, prefilled: undefined })
    this.#keys.set(group, key)
  }

  /** The group's prompt, run by `prefill` unless another of the same kind did. */
  async get(
    group: Group,
    prefill: (prompt: Int32Array) => Promise<PrefilledPrompt>,
  ): Promise<PrefilledPrompt | undefined> {
    const entry = this.#entries.get(this.#keys.get(group) ?? '')
    if (!entry) return undefined
    entry.prefilled ??= await prefill(group.task.prompt)
    return entry.prefilled
  }

  /** No more completions of the group will start. */
  release(group: Group): void {
    const key = this.#keys.get(group)
    const entry = key === undefined ? undefined : this.#entries.get(key)
    if (key === undefined || !entry) return
    this.#keys.delete(group)
    if (--entry.users > 0) return
    entry.prefilled?.dispose()
    this.#entries.delete(key)
  }
}
