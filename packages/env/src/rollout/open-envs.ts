import { bounded } from '../deadline.js'
import { neverAborted } from '../on-abort.js'
import { EnvInputError, TimeoutError } from '../errors.js'
import type { EnvGroupBuilder } from '../group.js'
import type { Env } from '../types.js'
import { across, failureOf, type RolloutFailure } from './failure.js'

/** The environments that a group has opened. Each is closed once, and the builder is cleaned up once, whatever happened. */
export class OpenEnvs {
  readonly #builder: EnvGroupBuilder
  readonly #timeoutSeconds: number | null
  readonly #failures: RolloutFailure[]
  readonly #open = new Map<Env, number>()

  constructor(builder: EnvGroupBuilder, timeoutSeconds: number | null, failures: RolloutFailure[]) {
    this.#builder = builder
    this.#timeoutSeconds = timeoutSeconds
    this.#failures = failures
  }

  /** @throws RolloutError of the boundary `builder` */
  async makeAll(signal: AbortSignal): Promise<readonly Env[]> {
    return across('builder', signal, async () => {
      const envs = await this.#call('makeEnvs', signal, (inner) => this.#builder.makeEnvs({ signal: inner }))
      if (!Array.isArray(envs) || envs.length === 0)
        throw new EnvInputError('makeEnvs: expected a list of at least one environment')
      envs.forEach((env: Env, slot) => this.#open.set(env, slot))
      if (new Set(envs).size !== envs.length)
        throw new EnvInputError('makeEnvs: the same environment stands in two slots; each serves one episode')
      return envs as readonly Env[]
    })
  }

  /** A fresh environment for a slot, in the place of one that is closed. @throws RolloutError of the boundary `builder` */
  async replace(old: Env, slot: number, signal: AbortSignal): Promise<Env> {
    await this.close(old)
    return across('builder', signal, async () => {
      const builder = this.#builder
      if (builder.makeEnv) {
        const env = await this.#call('makeEnv', signal, (inner) => builder.makeEnv!(slot, { signal: inner }))
        this.#open.set(env, slot)
        return env
      }
      const envs = await this.makeAll(signal)
      const env = envs[slot]
      await Promise.all(envs.filter((other) => other !== env).map((other) => this.close(other)))
      if (!env) throw new EnvInputError(`makeEnvs: gave ${envs.length} environments, and slot ${slot} is needed`)
      return env
    })
  }

  async close(env: Env): Promise<void> {
    const slot = this.#open.get(env)
    if (slot === undefined) return
    this.#open.delete(env)
    if (env.close) await this.#last('close', slot, () => env.close!())
  }

  /** Closes what is open and cleans up. Never throws: what goes wrong is added to the failures. */
  async end(): Promise<void> {
    await Promise.all([...this.#open.keys()].map((env) => this.close(env)))
    if (this.#builder.cleanup) await this.#last('cleanup', null, () => this.#builder.cleanup!())
  }

  async #last(what: string, slot: number | null, call: () => void | Promise<void>): Promise<void> {
    try {
      await across('cleanup', neverAborted, () => this.#call(what, neverAborted, call))
    } catch (error) {
      this.#failures.push(failureOf(error, slot, 0))
    }
  }

  #call<T>(what: string, signal: AbortSignal, call: (signal: AbortSignal) => T | Promise<T>): T | Promise<T> {
    const seconds = this.#timeoutSeconds
    const expired = () => new TimeoutError(what, seconds!, 'env_timeout')
    return bounded(call, { signal, deadlines: seconds === null ? [] : [{ ms: seconds * 1000, expired }] })
  }
}
