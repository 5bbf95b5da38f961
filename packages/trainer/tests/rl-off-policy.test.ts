import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { EnvGroupBuilder, RLDataset } from '@selfplay/env'
import { Random } from '@selfplay/env'
import { PacedProducer } from '../src/rl/producer.js'
import type { RLUpdate } from '../src/rl/trainer.js'
import { letterGroup, letters, toyRL } from './support/rl.js'
import { readLines, temporaryFolder } from './support/setup.js'
import { ToyClient } from './support/toy-client.js'

const never = new AbortController().signal
const pause = (turns: number) => new Promise<void>((resolve) => setTimeout(resolve, turns))

interface World {
  readonly sizes: readonly number[]
  readonly maxStaleness: number
  readonly workers: number | null
  readonly seed: number
  /** Updates after which the process "dies", and starts anew from its checkpoint. */
  readonly stopAfter: number | null
}

/** Runs a producer and a consumer that take random times. Says what was trained, by which weights, and how much ran at once. */
async function simulate({ sizes, maxStaleness, workers, seed, stopAfter }: World) {
  const random = new Random(seed)
  const made: string[] = []
  let open = 0
  let most = 0
  let left = 0
  let updates = 0
  const start = () =>
    new PacedProducer<number, { place: string; batch: number; madeAt: number }>(
      {
        first: updates,
        total: sizes.length,
        maxStaleness,
        workers,
        getBatch: async (index) => {
          await pause(random.below(2))
          return Array.from({ length: sizes[index]! }, (_, k) => k)
        },
        makeGroup: async (builder, { batch, group }) => {
          expect(builder).toBe(group)
          const madeAt = updates
          most = Math.max(most, ++open)
          await pause(random.below(4))
          open--
          made.push(`${batch}.${group}`)
          return { place: `${batch}.${group}`, batch, madeAt }
        },
      },
      never,
    )
  let producer = start()
  const trained: string[] = []
  const staleness: number[] = []
  for (;;) {
    const groups = await producer.next()
    if (!groups) break
    trained.push(...groups.map(({ place }) => place))
    staleness.push(...groups.map(({ madeAt }) => updates - madeAt))
    await pause(random.below(3))
    updates++
    if (updates === stopAfter) {
      await producer.close()
      left = open
      producer = start()
    } else producer.advance(updates)
  }
  await producer.close()
  return { made, trained, staleness, most, left }
}

describe('a paced producer', () => {
  const world = fc.record<World>({
    sizes: fc.array(fc.integer({ min: 0, max: 4 }), { minLength: 1, maxLength: 6 }),
    maxStaleness: fc.integer({ min: 1, max: 3 }),
    workers: fc.option(fc.integer({ min: 1, max: 5 })),
    seed: fc.nat(1000),
    stopAfter: fc.option(fc.integer({ min: 1, max: 5 })),
  })

  it('loses nothing, doubles nothing, and keeps the bound on staleness, at the end and over a resume', async () => {
    await fc.assert(
      fc.asyncProperty(world, async (given) => {
        const { made, trained, staleness, most, left } = await simulate(given)
        const all = given.sizes.flatMap((size, batch) => Array.from({ length: size }, (_, k) => `${batch}.${k}`))
        expect(trained).toEqual(all)
        // What was under way when it stopped is made again; without a stop nothing is made twice.
        expect([...(given.stopAfter === null ? made : new Set(made))].sort()).toEqual([...all].sort())
        expect(left).toBe(0)
        expect(staleness.every((lag) => lag >= 0 && lag <= given.maxStaleness)).toBe(true)
        expect(most).toBeLessThanOrEqual(given.workers ?? Math.max(1, ...given.sizes))
      }),
      { seed: 11, numRuns: 40 },
    )
  })

  it('runs ahead as far as the bound, and no further', async () => {
    const started: number[] = []
    const producer = new PacedProducer<number, number>(
      {
        first: 0,
        total: 10,
        maxStaleness: 2,
        workers: null,
        getBatch: () => Promise.resolve([0]),
        makeGroup: (_, { batch }) => Promise.resolve(started.push(batch)),
      },
      never,
    )
    await pause(20)
    expect(started).toEqual([0, 1, 2])
    producer.advance(1)
    await pause(10)
    expect(started).toEqual([0, 1, 2, 3])
    await producer.close()
  })

  it.each(['a group', 'a batch', 'an abort'])('ends every wait when %s fails, with its error', async (what) => {
    const controller = new AbortController()
    let settled = 0
    const producer = new PacedProducer<number, number>(
      {
        first: 0,
        total: 4,
        maxStaleness: 1,
        workers: 3,
        getBatch: (index) =>
          what === 'a batch' && index === 1 ? Promise.reject(new Error(what)) : Promise.resolve([0, 1]),
        makeGroup: async (_, { batch, group }, signal) => {
          if (what === 'a group' && group === 1) throw new Error(what)
          await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
          settled++
          return batch
        },
      },
      controller.signal,
    )
    if (what === 'an abort') setTimeout(() => controller.abort(new Error(what)), 5)
    await expect(producer.next()).rejects.toThrow(what)
    await producer.close()
    expect(settled).toBeGreaterThan(0)
    await expect(producer.next()).rejects.toThrow(what)
  })
})

/** A data set that counts how often each batch is asked for and each group is made. */
function counted(inner: RLDataset) {
  const asked: number[] = []
  let envs = 0
  const dataset: RLDataset = {
    length: inner.length,
    async getBatch(index, options) {
      asked.push(index)
      return (await inner.getBatch(index, options)).map((builder): EnvGroupBuilder => ({
        ...builder,
        makeEnvs: (...args) => (envs++, builder.makeEnvs(...args)),
      }))
    },
  }
  return { dataset, asked, envs: () => envs }
}

describe('trainRL off-policy', () => {
  const offPolicy = { maxStaleness: 2 }

  it('check 46: each completion carries its policy version, none is further behind than allowed, and all are trained', async () => {
    const client = new ToyClient()
    const losses = new Set<string>()
    client.onForwardBackward = (_, { name }) => void losses.add(name)
    client.onSample = () => pause(1)
    const { dataset, asked, envs } = counted(letters())
    const updates: RLUpdate[] = []
    for await (const update of toyRL({ client, dataset, steps: 12, offPolicy }).trainer.updates()) updates.push(update)
    expect([...losses]).toEqual(['ppo'])
    expect(asked).toEqual(Array.from({ length: 12 }, (_, k) => k % 3))
    expect(envs()).toBe(24)
    let behind = 0
    for (const [index, { metrics, groups }] of updates.entries()) {
      expect(metrics['training_client/step']).toBe(index)
      expect(metrics['groups/stale']).toBe(0)
      for (const { group } of groups)
        for (const { trajectory } of group.members)
          for (const { action } of trajectory.transitions) {
            expect(index - action.policyVersion!).toBeLessThanOrEqual(2)
            behind = Math.max(behind, index - action.policyVersion!)
          }
      for (const name of ['time/sampling_time_min', 'time/sampling_time_max', 'time/sampling_time_mean'])
        expect(metrics).toHaveProperty([name])
    }
    expect(behind).toBeGreaterThan(0)
  })

  it('learns', async () => {
    const client = new ToyClient()
    client.onSample = () => pause(1)
    const { trainer } = toyRL({ client, steps: 40, learningRate: 0.1, offPolicy: { maxStaleness: 1 } })
    const rewards: number[] = []
    for await (const { rewardMean } of trainer.updates()) rewards.push(rewardMean)
    const mean = (part: number[]) => part.reduce((sum, x) => sum + x, 0) / part.length
    expect(mean(rewards.slice(-8))).toBeGreaterThan(1.5 * mean(rewards.slice(0, 8)))
  })

  it('trains each batch once over an interruption, with its bound intact', async () => {
    const run = join(await temporaryFolder(), 'run')
    const setup = (resume: boolean) => {
      const client = new ToyClient()
      client.onSample = () => pause(1)
      return toyRL({ client, steps: 9, offPolicy, checkpointEvery: 4, run: { directory: run, resume } })
    }
    for await (const { step } of setup(false).trainer.updates()) if (step === 5) break
    await setup(true).trainer.train()
    const metrics = await readLines(join(run, 'metrics.jsonl'))
    expect(metrics.map(({ step }) => step)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9])
    const rollouts = await readLines(join(run, 'rollouts.jsonl'))
    expect(rollouts.map(({ step, group }) => `${String(step)}.${String(group)}`)).toEqual(
      Array.from({ length: 9 }, (_, k) => [`${k + 1}.0`, `${k + 1}.1`]).flat(),
    )
    for (const row of metrics) {
      const lag = Number(row['training_client/step']) - Number(row['sampling_client/step_min'])
      expect(lag).toBeLessThanOrEqual(2)
      expect(row['groups/stale']).toBe(0)
    }
  })

  it('lets go of every snapshot, whatever ends the run', async () => {
    for (const end of ['the last update', 'leaving', 'a failure']) {
      const client = new ToyClient()
      let open = 0
      const snapshot = client.snapshot.bind(client)
      client.snapshot = async () => {
        open++
        const sampler = await snapshot()
        const dispose = sampler.dispose.bind(sampler)
        return Object.assign(sampler, { dispose: () => (open--, dispose()) })
      }
      const broken = { ...letterGroup('a'), makeEnvs: () => Promise.reject(new Error('no room')) }
      const dataset = end === 'a failure' ? { length: 1, getBatch: () => [broken] } : letters()
      const { trainer } = toyRL({ client, steps: 4, offPolicy, dataset, strategy: { kind: 'fail-fast' } })
      const run = async () => {
        for await (const { step } of trainer.updates()) if (end === 'leaving' && step === 2) break
      }
      const failure = await run().then(
        () => '',
        (error: unknown) => String(error),
      )
      expect(failure.includes('no room')).toBe(end === 'a failure')
      expect(open).toBe(0)
    }
  })
})
