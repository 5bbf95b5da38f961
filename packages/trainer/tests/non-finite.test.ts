import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { NonFiniteError, type SelfplayError } from '@selfplay/engine'
import { MADPOTrainer } from '../src/preference/madpo.js'
import { toyRL } from './support/rl.js'
import { countA, readLines, rows, temporaryFolder, toyTrainer } from './support/setup.js'
import { ToyClient } from './support/toy-client.js'

const failureOf = (promise: Promise<unknown>) => promise.catch((error: unknown) => error) as Promise<SelfplayError>

/** Makes a client's second `forwardBackward` fail. */
function failSecond(client: ToyClient): void {
  client.onForwardBackward = () => {
    if (client.calls.forwardBackward === 2) throw new NonFiniteError('datum 1: the loss is not finite', { datum: 1 })
  }
}

describe('a loss that is not finite', () => {
  it('says after how many steps of the update it came: none, then one', async () => {
    const message = async (numSubsteps: number) => {
      const client = new ToyClient()
      failSecond(client)
      return (await failureOf(toyRL({ client, numSubsteps }).trainer.train())).message
    }
    expect(await message(1)).toMatch(/^update 2, group .* not finite; the weights are unchanged/)
    expect(await message(2)).toMatch(
      /^update 1, group .* not finite; the weights are those after 1 step\(s\) of this update/,
    )
  })

  it.each([1, 2])('says which agents had taken their step, with %i policies at once', async (maxConcurrentPolicies) => {
    const run = join(await temporaryFolder(), 'run')
    const { trainer, agents } = toyTrainer({ run, config: { maxConcurrentPolicies } })
    failSecond(agents[1]!)
    const failure = await failureOf(trainer.train())
    expect(failure).toBeInstanceOf(NonFiniteError)
    expect(failure.message).toMatch(
      /^update 2, agent 1, row 1, turn 1, completion 1: datum 1: the loss is not finite; /,
    )
    expect(failure.message).toMatch(/agent 0 had taken a step of this update already, .*: resume from a checkpoint$/)
    expect(failure.details).toMatchObject({ step: 2, agent: 1, stepped: [0] })
    expect(agents.map(({ step }) => step)).toEqual([2, 1])
    const events = (await readLines(join(run, 'events.jsonl'))).map(({ message }) => message)
    expect(events.join()).toMatch(/update 2 was given up while it was changing weights/)
  })

  it('says that the weights are unchanged when they are', async () => {
    const { trainer, agents } = toyTrainer({ config: { maxConcurrentPolicies: 1 } })
    failSecond(agents[0]!)
    const failure = await failureOf(trainer.train())
    expect(failure.message).toMatch(/^update 2, agent 0, .*; the weights are unchanged$/)
    expect(agents.map(({ step }) => step)).toEqual([1, 1])
  })

  it('says it of preference pairs too', async () => {
    const agents = [new ToyClient(), new ToyClient()]
    failSecond(agents[1]!)
    const trainer = new MADPOTrainer({
      agents,
      rewardFunc: countA,
      trainDataset: rows(3),
      onNotice: () => {},
      config: { maxNewTokens: 6, agentLearningRate: 0.05 },
    })
    const failure = await failureOf(trainer.train())
    expect(failure.message).toMatch(/^update 2, agent 1, pair 0: .*; agent 0 had taken a step of this update already/)
    expect(agents.map(({ step }) => step)).toEqual([2, 1])
  })
})

describe('weights that are not finite after an update', () => {
  it('are named with update, agent and what to change, and not saved', async () => {
    const run = join(await temporaryFolder(), 'run')
    const { trainer, agents } = toyTrainer({ run, config: { checkpointEvery: 2 } })
    const failure = await failureOf(
      (async () => {
        for await (const { step } of trainer.updates()) if (step === 3) agents[1]!.weights.fill(Number.NaN)
      })(),
    )
    expect(failure).toBeInstanceOf(NonFiniteError)
    expect(failure.message).toMatch(/^update 4, agent 1, row 0, turn 1: completion 0: token 0 has log-prob NaN/)
    expect(failure.message).toMatch(/begin anew with a lower learning rate than 0\.05$/)
    expect(failure.details).toMatchObject({ step: 4, agent: 1 })
    expect(await readdir(join(run, 'checkpoints'))).toEqual(['step-00000002'])
  })

  it('are named by an evaluation, and no model of them is saved', async () => {
    const run = join(await temporaryFolder(), 'run')
    const { trainer, agents } = toyTrainer({ run, evalDataset: rows(1), config: { evalInterval: 0 } })
    const failure = await failureOf(
      (async () => {
        for await (const { step } of trainer.updates()) if (step === 6) agents[0]!.weights.fill(Number.NaN)
      })(),
    )
    expect(failure.message).toMatch(/^evaluation after update 6, agent 0, row 0, turn 1: completion 0: /)
    expect(await readdir(run)).not.toContain('agent_0')
  })

  it('are named when the core refuses to sample from them', async () => {
    const { trainer, agents } = toyTrainer()
    agents[0]!.onSample = () => {
      if (agents[0]!.step > 0) throw new NonFiniteError('completion 0: token 0 has log-prob NaN', { position: 0 })
    }
    const failure = await failureOf(trainer.train())
    expect(failure.message).toMatch(/^update 2, agent 0, row 1, turn 1: completion 0: token 0 has log-prob NaN; /)
  })
})

it('a gap between sampler and trainer is said to come from large steps, too', async () => {
  const { trainer, agents } = toyTrainer()
  agents[0]!.onForwardBackward = () => {
    agents[0]!.weights = agents[0]!.weights.map((w, i) => w + (i % 3))
  }
  const { message } = await failureOf(trainer.train())
  expect(message).toMatch(/lower the learning rate then\)\. The step was refused; .*unchanged/)
})
