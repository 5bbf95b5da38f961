import type { Limiter } from '../limiter.js'
import { deriveSeed } from '../random.js'
import type { Sampler } from '../sampler.js'
import type { Env, Trajectory } from '../types.js'
import { RolloutError, failureOf, type RolloutFailure } from './failure.js'
import { limitsFor, type RolloutLimits } from './limits.js'
import type { OpenEnvs } from './open-envs.js'
import { Rollout } from './run-rollout.js'
import { floorOf, retriesOf, type Strategy } from './strategy.js'

/** What became of one slot. `error` is there only where there is no trajectory. */
export interface Slot {
  readonly slot: number
  env: Env
  attempt: number
  trajectory?: Trajectory
  error?: unknown
}

export interface MembersOptions {
  readonly sample: Sampler
  readonly limits: Partial<RolloutLimits>
  readonly strategy: Strategy
  readonly seed: number | undefined
  readonly limiter: Limiter
  readonly open: OpenEnvs
  readonly failures: RolloutFailure[]
  /** Of this group alone: cancels all its members. */
  readonly controller: AbortController
}

/**
 * Runs the members of a group at the same time, as the limiter lets them.
 *
 * @returns the slots in order, each with a trajectory or the error that it ended with; all have settled
 * @throws the signal's reason when the whole is aborted from outside
 */
export async function runMembers(envs: readonly Env[], options: MembersOptions): Promise<Slot[]> {
  const slots = envs.map((env, slot): Slot => ({ slot, env, attempt: 0 }))
  const members = new Members(slots, options)
  await members.run()
  return slots
}

class Members {
  readonly #slots: readonly Slot[]
  readonly #options: MembersOptions
  #retriesLeft: number

  constructor(slots: readonly Slot[], options: MembersOptions) {
    this.#slots = slots
    this.#options = options
    this.#retriesLeft = retriesOf(options.strategy)
  }

  async run(): Promise<void> {
    const { strategy } = this.#options
    await Promise.all(this.#slots.map((slot) => this.#member(slot)))
    if (strategy.kind !== 'minimum-viable') return
    const floor = floorOf(strategy, this.#slots.length)
    for (;;) {
      const failed = this.#slots.filter((slot) => !slot.trajectory)
      const missing = floor - (this.#slots.length - failed.length)
      const again = failed.slice(0, Math.min(missing, this.#retriesLeft))
      if (again.length === 0) return
      this.#retriesLeft -= again.length
      await Promise.all(again.map((slot) => this.#retry(slot)))
    }
  }

  /** The first attempt, and under `retry` those that follow it at once. */
  async #member(slot: Slot): Promise<void> {
    const { strategy, controller } = this.#options
    await this.#attempt(slot)
    if (strategy.kind === 'minimum-viable') return
    while (slot.error !== undefined && !controller.signal.aborted && this.#retriesLeft > 0) {
      this.#retriesLeft--
      await this.#retry(slot)
    }
    if (slot.error !== undefined && !controller.signal.aborted) controller.abort(slot.error)
  }

  async #retry(slot: Slot): Promise<void> {
    slot.attempt++
    await this.#guarded(slot, async (signal) => {
      slot.env = await this.#options.open.replace(slot.env, slot.slot, signal)
    })
    if (slot.error === undefined) await this.#attempt(slot)
  }

  #attempt(slot: Slot): Promise<void> {
    const { sample, limits, seed, limiter } = this.#options
    const own = seed === undefined ? undefined : deriveSeed(seed, slot.slot, slot.attempt)
    return this.#guarded(slot, async (signal) => {
      slot.trajectory = await limiter.run(
        () => new Rollout(slot.env, sample, limitsFor(slot.env, limits), own, signal).run(),
        signal,
      )
    })
  }

  async #guarded(slot: Slot, work: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const { controller, failures } = this.#options
    delete slot.error
    try {
      await work(controller.signal)
    } catch (error) {
      slot.error = error
      // A member that was cancelled because of another has not failed itself.
      if (error instanceof RolloutError && error !== controller.signal.reason)
        failures.push(failureOf(error, slot.slot, slot.attempt))
    }
  }
}
