import { getEventListeners } from 'node:events'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { getRenderer, user } from '@selfplay/renderers'
import { describe, expect, it } from 'vitest'
import { EnvFromMessageEnv } from '../env-from-message-env.js'
import { byteTokenizer, hang, mockMessageEnv, scriptedSampler } from '../testing/index.js'
import type { Env } from '../types.js'
import { runGroup } from './run-group.js'

const renderer = getRenderer('chatml', byteTokenizer(), { defaultSystem: null })
const COUNT = 1000

/** Of each 20 slots one hangs, one throws and one overflows. */
const kindOf = (slot: number) => (['hangs', 'throws', 'overflows'] as const)[slot % 20]

function envOf(slot: number): EnvFromMessageEnv {
  const kind = kindOf(slot)
  const messageEnv = mockMessageEnv(async (_, { turn }) => {
    await new Promise((resolve) => setTimeout(resolve, (slot * 7) % 5))
    if (kind === 'hangs') return hang()
    if (kind === 'throws') throw new RangeError(`slot ${slot}`)
    const episodeDone = turn === 1
    return { reward: slot, episodeDone, nextMessages: [user(kind === 'overflows' ? 'long '.repeat(100) : 'more')] }
  })
  return new EnvFromMessageEnv({ renderer, messageEnv, maxTrajectoryTokens: 300, maxGenerationTokens: 20 })
}

const collectGarbage = () => {
  setFlagsFromString('--expose-gc')
  ;(runInNewContext('gc') as () => void)()
}

describe('1,000 environments at once, of which 5 % hang, 5 % throw and 5 % overflow', () => {
  it('all end, in order, each with the right reason, and nothing is left behind', async () => {
    const envs: WeakRef<Env>[] = []
    const warnings: string[] = []
    const onWarning = (warning: Error) => warnings.push(warning.name)
    process.on('warning', onWarning)
    const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length
    const before = timers()
    const { signal } = new AbortController()
    let cleanups = 0
    const group = await runGroup(
      {
        makeEnvs() {
          const made = Array.from({ length: COUNT }, (_, slot) => envOf(slot))
          envs.push(...made.map((one) => new WeakRef(one)))
          return made
        },
        cleanup: () => void cleanups++,
      },
      {
        sample: scriptedSampler(renderer, () => 'ok'),
        limits: { envTimeoutSeconds: 1.5 },
        strategy: { kind: 'minimum-viable', maxRetries: 0 },
        concurrency: COUNT,
        signal,
      },
    )

    const slots = Array.from({ length: COUNT }, (_, slot) => slot)
    const failing = (kind: string) => slots.filter((slot) => kindOf(slot) === kind)
    const failed = slots.filter((slot) => kindOf(slot) === 'hangs' || kindOf(slot) === 'throws')
    expect(group.status).toBe('partial')
    expect(group.members.map((m) => m.slot)).toEqual(slots.filter((slot) => !failed.includes(slot)))
    expect(group.failures.map((f) => f.slot)).toEqual(failed)
    for (const { slot, boundary, code, message } of group.failures) {
      const hangs = kindOf(slot!) === 'hangs'
      expect([boundary, code]).toEqual(['env', hangs ? 'env_timeout' : 'RangeError'])
      expect(message).toContain(hangs ? '1.5 s' : `slot ${slot}`)
    }
    for (const { slot, trajectory, reward } of group.members) {
      const overflows = kindOf(slot) === 'overflows'
      expect(trajectory.stopReason).toBe(overflows ? 'context_overflow' : 'completed')
      expect(reward).toBe(overflows ? -0.1 : 2 * slot)
    }
    expect([failing('hangs'), failing('throws'), failing('overflows')].map((list) => list.length)).toEqual([50, 50, 50])

    expect(cleanups).toBe(1)
    expect(timers()).toBeLessThanOrEqual(before) // the test runner's own may end meanwhile
    expect(getEventListeners(signal, 'abort')).toEqual([])
    await new Promise((resolve) => setImmediate(resolve))
    process.off('warning', onWarning)
    expect(warnings).toEqual([])
    collectGarbage()
    await new Promise((resolve) => setImmediate(resolve))
    collectGarbage()
    // A promise that hangs must not keep its environment: only what this test still holds may live.
    expect(envs.filter((ref) => ref.deref() !== undefined).length).toBeLessThanOrEqual(2)
  })

  it('all end when aborted in the middle', async () => {
    const controller = new AbortController()
    const running = runGroup(
      { makeEnvs: () => Array.from({ length: COUNT }, (_, slot) => envOf(slot)) },
      {
        sample: scriptedSampler(renderer, () => 'ok'),
        concurrency: 100,
        signal: controller.signal,
        strategy: { kind: 'retry' },
      },
    )
    setTimeout(() => controller.abort(new Error('ctrl-c')), 5)
    const started = performance.now()
    await expect(running).rejects.toThrow('ctrl-c')
    expect(performance.now() - started).toBeLessThan(5000)
    expect(getEventListeners(controller.signal, 'abort')).toEqual([])
  })
})
