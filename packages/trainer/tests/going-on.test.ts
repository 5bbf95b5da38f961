import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { IACTrainer } from '../src/actor-critic/index.js'
import { ConfigError, SamplerGapError } from '../src/errors.js'
import type { PromptRow } from '../src/magrpo/types.js'
import { trainRL } from '../src/rl/trainer.js'
import type { Tracker } from '../src/track/tracker.js'
import { toyRL } from './support/rl.js'
import { countA, rows, temporaryFolder, toyTrainer } from './support/setup.js'
import { ToyClient } from './support/toy-client.js'
import { ToyActorCritic } from './support/toy-critic.js'

// What a trainer keeps between two calls of `updates()` in one process, and what it lets go of.

const loops = ['MAGRPO', 'RL'] as const
/** Either loop with its first client, six updates long. */
function make(loop: (typeof loops)[number], options: { run?: string; trackers?: Tracker[]; penalty?: boolean } = {}) {
  const { penalty = false, ...outside } = options
  if (loop === 'RL') return toyRL({ ...outside, ...(penalty && { klPenalty: { coef: 0.1 } }) })
  const client = new ToyClient()
  const config = penalty ? { referenceKl: { coef: 0.1 } } : {}
  return { ...toyTrainer({ ...outside, agents: [client, new ToyClient({ seed: 1 })], config }), client }
}

/** Trains up to and with an update. */
async function until(trainer: ReturnType<typeof make>['trainer'], last: number, signal?: AbortSignal) {
  for await (const { step } of trainer.updates(signal ? { signal } : {})) if (step === last) break
}

describe('a trainer whose step was refused', () => {
  it('does not go on with the gradients of that step', async () => {
    const client = new ToyClient()
    const { trainer } = toyTrainer({ agents: [client] })
    client.onForwardBackward = () => (client.weights = client.weights.map((w, i) => w + (i % 3)))
    await expect(trainer.train()).rejects.toThrow(SamplerGapError)
    client.onForwardBackward = undefined
    await expect(trainer.train()).rejects.toThrow(/agents\[0\] still holds the gradients of a step that was refused/)
    expect(client.step).toBe(0)
  })

  it('does not go on after an abort between the gradients of an agent and of its value head', async () => {
    const agent = new ToyActorCritic()
    const trainer = new IACTrainer<PromptRow>({
      agents: [agent],
      rewardFunc: countA,
      trainDataset: rows(4),
      config: { numTrainEpochs: 1, promptsPerUpdate: 4, maxNewTokens: 4, abortGraceSeconds: 0 },
    })
    const controller = new AbortController()
    agent.onForwardBackward = () => setTimeout(() => controller.abort(new Error('enough')))
    const values = agent.forwardBackwardValues.bind(agent)
    agent.forwardBackwardValues = async (...args) => {
      while (!controller.signal.aborted) await new Promise((resolve) => setTimeout(resolve, 1))
      return values(...args)
    }
    await expect(trainer.train({ signal: controller.signal })).rejects.toThrow('enough')
    agent.onForwardBackward = undefined
    await expect(trainer.train()).rejects.toThrow(/agents\[0\] still holds the gradients/)
    expect(agent.step).toBe(0)
  })
})

describe('trackers of a trainer that is left and goes on', () => {
  const recorder = () => {
    const calls: string[] = []
    const tracker: Tracker = {
      start: ({ name, resumedAt }) => void calls.push(`start ${name} ${resumedAt}`),
      log: (row) => void calls.push(`row ${row['step']}`),
      finish: (outcome) => Promise.resolve(void calls.push(outcome)),
    }
    return { tracker, calls }
  }

  it.each(loops)('%s: each part is a start, its rows and one end', async (loop) => {
    const { tracker, calls } = recorder()
    const run = join(await temporaryFolder(), 'letters')
    const { trainer } = make(loop, { run, trackers: [tracker] })
    await until(trainer, 2)
    await until(trainer, 3)
    await trainer.train()
    const parts = [
      'start letters 0, row 1, row 2, aborted',
      'start letters 2, row 3, aborted',
      'start letters 3, row 4, row 5, row 6, finished',
    ]
    expect(calls.join(', ')).toBe(parts.join(', '))
  })

  it.each(loops)('%s: a part that never began has no end', async (loop) => {
    const { tracker, calls } = recorder()
    const { trainer } = make(loop, { trackers: [tracker] })
    await expect(until(trainer, 2, AbortSignal.abort(new Error('at once')))).rejects.toThrow('at once')
    expect(calls).toEqual([])
  })
})

describe('the policies that a penalty compares with', () => {
  /** Counts the frozen copies of a client that nobody has let go of. */
  function countCopies(client: ToyClient): () => number {
    let open = 0
    const snapshot = client.snapshot.bind(client)
    client.snapshot = async () => {
      const copy = await snapshot()
      const dispose = copy.dispose.bind(copy)
      open++
      copy.dispose = () => {
        open--
        return dispose()
      }
      return copy
    }
    return () => open
  }

  it.each(loops)('%s: are kept while a run may go on, and let go of by dispose', async (loop) => {
    const { trainer, client } = make(loop, { penalty: true })
    const copies = countCopies(client)
    await until(trainer, 2)
    await until(trainer, 3)
    expect(copies()).toBe(1)
    await trainer.dispose()
    expect(copies()).toBe(0)
    await expect(trainer.train()).rejects.toThrow(/was disposed of: make a new one/)
  })

  it.each(loops)('%s: are let go of when the run has finished', async (loop) => {
    const { trainer, client } = make(loop, { penalty: true })
    const copies = countCopies(client)
    await trainer.train()
    expect(copies()).toBe(0)
  })

  it.each(loops)('%s: are not let go of in the middle of training', async (loop) => {
    const { trainer } = make(loop, { penalty: true })
    const updates = trainer.updates()
    await updates.next()
    await expect(trainer.dispose()).rejects.toThrow(ConfigError)
    await updates.return()
  })

  it('trainRL lets go of them however it ends', async () => {
    const { client, config } = toyRL({ klPenalty: { coef: 0.1 } })
    const copies = countCopies(client)
    const controller = new AbortController()
    const onUpdate = () => controller.abort(new Error('enough'))
    await expect(trainRL({ ...config, onUpdate }, { signal: controller.signal })).rejects.toThrow('enough')
    expect(copies()).toBe(0)
  })
})
