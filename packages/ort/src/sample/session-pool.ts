import { createHash } from 'node:crypto'
import type { SerialisedModel } from '../graph/index.js'
import type { Session } from '../runtime/index.js'

interface Shared {
  readonly session: Promise<Session>
  users: number
}

/**
 * Sessions of equal graphs on equal frozen weights, made once for all samplers that want them: each further one would pack every
 * weight anew before it found the packed copy of the first. Runs of a shared session wait for each other, so this is for models
 * whose steps keep all threads busy anyway.
 */
export class SessionPool {
  readonly #shared = new Map<string, Shared>()

  /** Disposing what comes back gives it to the others; the last one disposes the session itself. */
  async acquire(model: SerialisedModel, make: () => Promise<Session>): Promise<Session> {
    const key = createHash('sha256').update(model.bytes).digest('hex')
    const known = this.#shared.get(key)
    const shared = known ?? { session: make(), users: 0 }
    this.#shared.set(key, shared)
    shared.users++
    try {
      return this.#handle(key, shared, await shared.session)
    } catch (error) {
      await this.#leave(key, shared)
      throw error
    }
  }

  #handle(key: string, shared: Shared, session: Session): Session {
    let left: Promise<void> | undefined
    return {
      run: (inputs, outputs, options) => session.run(inputs, outputs, options),
      bind: (inputs, outputs) => session.bind(inputs, outputs),
      dispose: () => (left ??= this.#leave(key, shared)),
    }
  }

  async #leave(key: string, shared: Shared): Promise<void> {
    shared.users--
    if (shared.users > 0) return
    if (this.#shared.get(key) === shared) this.#shared.delete(key)
    const session = await shared.session.catch(() => undefined)
    await session?.dispose()
  }
}
