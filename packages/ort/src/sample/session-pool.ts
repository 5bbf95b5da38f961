import { createHash } from 'node:crypto'
import type { SerialisedModel } from '../graph/index.js'
import type { Session } from '../runtime/index.js'
import { Company } from './pace.js'

interface Shared {
  readonly session: Promise<Session>
  users: number
}

/**
 * Sessions of equal graphs on equal weights, made once for all samplers that want them. The frozen weights must be the same for all;
 * those that change are inputs of the graphs.
 *
 * Of a large model, each further session would pack every weight anew before it found the packed copy of the first; runs of a shared
 * one wait for each other, which costs nothing where a step keeps all threads busy. Of a small one, making a session takes as long as
 * a hundred steps; its runs are best `concurrent`.
 */
export class SessionPool {
  /** Whether runs of different samplers may overlap. */
  readonly concurrent: boolean
  /** The samplers that step at the moment. */
  readonly company = new Company()
  readonly #shared = new Map<string, Shared>()
  readonly #models = new Map<string, SerialisedModel>()

  constructor({ concurrent = false }: { readonly concurrent?: boolean } = {}) {
    this.concurrent = concurrent
  }

  /** A graph that is the same for all samplers of this pool, built once. */
  model(name: string, build: () => SerialisedModel): SerialisedModel {
    const known = this.#models.get(name) ?? build()
    this.#models.set(name, known)
    return known
  }

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
