import { repeat, type EnvGroupBuilder } from '../../group.js'
import type { Sampler } from '../../sampler.js'
import type { Env, StepResult } from '../../types.js'

export const sample: Sampler = ({ seed = 0 }) => ({
  tokens: Int32Array.of(seed),
  logprobs: new Float32Array(1),
  stopReason: 'stop',
})
export const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

export interface TestEnv extends Env {
  readonly slot: number
  closed: number
}
export const result = (reward: number): StepResult => ({
  reward,
  episodeDone: true,
  nextObservation: { tokens: new Int32Array(0), stop: [] },
  stopReason: 'completed',
})
export function env(slot: number, step: () => StepResult | Promise<StepResult> = () => result(slot)): TestEnv {
  return {
    slot,
    closed: 0,
    initialObservation: () => ({ tokens: Int32Array.of(slot), stop: [] }),
    step,
    close() {
      this.closed++
    },
  }
}
export const boom = () => Promise.reject(new Error('boom'))

/** A builder that keeps account. `fails[slot]` is how many attempts of the slot fail. */
export function builder(size: number, fails: Record<number, number> = {}, extra: Partial<EnvGroupBuilder> = {}) {
  const made: TestEnv[] = []
  const left = { ...fails }
  const make = (slot: number) => {
    const one = env(slot, async () => {
      await wait((size - slot) * 2) // the last slot is done first
      if ((left[slot] ?? 0) > 0) {
        left[slot]!--
        return boom()
      }
      return result(slot)
    })
    made.push(one)
    return one
  }
  const parts = {
    makeEnvs: () => {
      account.makeEnvsCalls++
      return repeat(size, make)
    },
    cleanup: () => void account.cleanups++,
  }
  const account = { cleanups: 0, makeEnvsCalls: 0, parts }
  const built: EnvGroupBuilder = { ...parts, makeEnv: make, ...extra }
  return { built, made, account }
}
