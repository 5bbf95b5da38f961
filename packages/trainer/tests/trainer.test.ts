import { join } from 'node:path'
import { readFile } from 'node:fs/promises'
import { describe, expect, it } from 'vitest'
import { lengthRatioReward } from '@selfplay/rewards'
import { NonFiniteError } from '@selfplay/engine'
import { MAGRPOTrainer } from '../src/magrpo/trainer.js'
import { exact, readLines, rows, temporaryFolder, toyTrainer } from './support/setup.js'
import { ToyClient } from './support/toy-client.js'

describe('MAGRPOTrainer, one turn', () => {
  it('makes two agents learn the length ratio from identical weights', async () => {
    const agents = [new ToyClient(), new ToyClient()]
    expect(agents[0]!.weights).toEqual(agents[1]!.weights)
    const trainer = new MAGRPOTrainer({
      agents,
      rewardFunc: lengthRatioReward(),
      trainDataset: rows(1),
      onNotice: () => {},
      config: { numTrainEpochs: 200, numGenerations: 8, maxNewTokens: 3, agentLearningRate: 0.1 },
    })
    const rewards: number[] = []
    for await (const update of trainer.updates()) rewards.push(update.rewardMean)
    expect(rewards).toHaveLength(200)
    const mean = (list: number[]) => list.reduce((sum, x) => sum + x, 0) / list.length
    expect(mean(rewards.slice(0, 10))).toBeLessThan(0.6)
    expect(mean(rewards.slice(-40))).toBeGreaterThan(0.85)
    expect(agents[0]!.weights).not.toEqual(agents[1]!.weights)
  })

  it('reports every update: numbers by turn and agent, rollouts, and what the terminal needs', async () => {
    const folder = join(await temporaryFolder(), 'run')
    const { trainer } = toyTrainer({ run: folder })
    const updates = []
    for await (const update of trainer.updates()) updates.push(update)
    expect(updates.map(({ step }) => step)).toEqual([1, 2, 3, 4, 5, 6])
    expect(updates[0]).toMatchObject({ totalSteps: 6, epoch: 0 })
    expect(updates.at(-1)!.etaSeconds).toBe(0)
    const metrics = await readLines(join(folder, 'metrics.jsonl'))
    expect(metrics).toEqual(updates.map((update) => update.metrics))
    for (const name of ['turn_1/reward_mean', 'turn_1/expected_return', 'frac_constant_groups', 'env_step', 'epoch']) {
      expect(metrics[0]).toHaveProperty([name])
    }
    for (const name of 'reward length length_chars logprob entropy grad_norm learning_rate sampler_gap truncated loss'.split(
      ' ',
    )) {
      for (const agent of [0, 1]) expect(metrics[0]).toHaveProperty([`agent_${agent}/${name}`])
    }
    expect(metrics[0]!['agent_0/sampler_gap']).toBeLessThan(1e-4)
    expect(Object.keys(metrics[0]!).filter((name) => /^(time|perf)\//.test(name)).length).toBeGreaterThan(5)
    const rollouts = await readLines(join(folder, 'rollouts.jsonl'))
    expect(rollouts).toHaveLength(6)
    expect(rollouts[0]).toMatchObject({ formatVersion: 1, step: 1, turn: 1 })
    const config = JSON.parse(await readFile(join(folder, 'config.json'), 'utf8')) as Record<string, unknown>
    expect(config).toMatchObject({ formatVersion: 1, trainer: 'MAGRPO', config: { numGenerations: 4 } })
  })

  it('thins only what is shown by loggingSteps', async () => {
    const folder = join(await temporaryFolder(), 'run')
    const logged: number[] = []
    const tracker = {
      start: () => {},
      log: (row: Readonly<Record<string, number>>) => logged.push(row['step']!),
      finish: () => Promise.resolve(),
    }
    const { trainer } = toyTrainer({ run: folder, trackers: [tracker], config: { numTrainEpochs: 3, loggingSteps: 4 } })
    const shown: number[] = []
    for await (const { step, isLogged } of trainer.updates()) if (isLogged) shown.push(step)
    expect(shown).toEqual([1, 4, 8, 9])
    expect(logged).toEqual(shown)
    expect(await readLines(join(folder, 'metrics.jsonl'))).toHaveLength(9)
  })

  it('trains a shared client once for all its agents', async () => {
    const client = new ToyClient()
    const { trainer } = toyTrainer({ agents: [client, client] })
    await trainer.train()
    expect(client.calls.optimStep).toBe(6)
    expect(client.step).toBe(6)
    expect(client.calls.concurrent).toBe(2) // both agents are sampled together
  })

  it('gives the agents identical prompt ids, different draws, and none of the other text', async () => {
    const agents = [new ToyClient({ eosBias: 1 }), new ToyClient({ eosBias: 1 })]
    const prompts: number[][][] = [[], []]
    agents.forEach((agent, a) => (agent.onSample = ({ prompt }) => void prompts[a]!.push([...prompt])))
    const { trainer } = toyTrainer({ agents, config: { numTrainEpochs: 1 } })
    for await (const { nodes } of trainer.updates()) {
      const [first, second] = nodes[0]!.node.completions.map((list) => list.map(({ text }) => text))
      expect(first).not.toEqual(second)
    }
    expect(prompts[0]).toEqual(prompts[1])
    expect(prompts[0]).toEqual([[1], [2], [3]])
  })

  it('takes one step per update on exactly the sampled tokens', async () => {
    const agents = [new ToyClient(), new ToyClient()]
    let trained = 0
    agents[0]!.onForwardBackward = (data) => {
      for (const { weights } of data) trained += weights!.reduce((sum, weight) => sum + weight, 0)
    }
    const { trainer } = toyTrainer({ agents, config: { maxSteps: 1 } })
    for await (const { nodes } of trainer.updates()) {
      expect(trained).toBe(nodes[0]!.node.completions[0]!.reduce((sum, { tokens }) => sum + tokens.length, 0))
    }
    expect(trained).toBeGreaterThan(0)
  })

  it('repeats itself exactly from the same seed, and not from another', async () => {
    const play = async (seed: number) => {
      const { trainer, agents } = toyTrainer({ config: { seed } })
      const metrics = []
      for await (const update of trainer.updates()) metrics.push(exact(update.metrics))
      return { metrics, weights: agents.map(({ weights }) => [...weights]) }
    }
    const first = await play(7)
    expect(await play(7)).toEqual(first)
    expect((await play(8)).metrics).not.toEqual(first.metrics)
  })

  it('saves models with a manifest', async () => {
    const folder = await temporaryFolder()
    const { trainer } = toyTrainer()
    await trainer.train()
    await trainer.saveModel(join(folder, 'models'))
    const manifest = JSON.parse(await readFile(join(folder, 'models', 'manifest.json'), 'utf8')) as object
    expect(manifest).toMatchObject({
      formatVersion: 1,
      agents: [
        { agent: 0, path: 'agent_0', policy: 0, step: 6 },
        { agent: 1, path: 'agent_1', policy: 1, step: 6 },
      ],
    })
    await readFile(join(folder, 'models', 'agent_1', 'model.json'))
  })

  it('check 18: an infinite loss is refused with its place, and the weights stay', async () => {
    const { trainer, agents } = toyTrainer()
    const before = [...agents[0]!.weights]
    agents[0]!.onForwardBackward = (data) => data[2]!.samplerLogprobs!.fill(-1e30)
    const failure = await trainer.train().catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(NonFiniteError)
    expect((failure as NonFiniteError).details).toMatchObject({ step: 1, agent: 0, row: 0, turn: 1, sample: 2 })
    expect([...agents[0]!.weights]).toEqual(before)
  })

  it('check 20: groups without variance make no step, count the update once and say why', async () => {
    const notices: string[] = []
    const { trainer, agents } = toyTrainer({
      rewardFunc: ({ completions }) => completions[0]!.map(() => 0.3),
      onNotice: ({ code }) => notices.push(code),
      config: { numTrainEpochs: 1 },
    })
    const before = agents.map(({ weights }) => [...weights])
    const updates = []
    for await (const update of trainer.updates()) updates.push(update)
    expect(updates.map(({ metrics }) => metrics['frac_constant_groups'])).toEqual([1, 1, 1])
    expect(updates.map(({ step }) => step)).toEqual([1, 2, 3])
    expect(agents.map(({ calls, step }) => [calls.forwardBackward, step])).toEqual([
      [0, 0],
      [0, 0],
    ])
    expect(agents.map(({ weights }) => [...weights])).toEqual(before)
    expect(notices).toContain('constant_groups')
    expect(updates[0]!.metrics['agent_0/optim_steps']).toBe(0)
  })

  it('check 22: null leaves one answer out, the other seven are centred over seven', async () => {
    const { trainer } = toyTrainer({
      rewardFunc: ({ completions }) => completions[0]!.map((_, k) => (k === 3 ? null : k)),
      config: { numGenerations: 8, maxSteps: 1, advantageNormalization: false },
    })
    for await (const { nodes, metrics } of trainer.updates()) {
      const { advantages } = nodes[0]!.groups[0]!
      expect(advantages[3]).toBeNull()
      const mean = (0 + 1 + 2 + 4 + 5 + 6 + 7) / 7
      expect(advantages[7]).toBeCloseTo(7 - mean, 12)
      expect(nodes[0]!.samples.filter(({ agent }) => agent === 0)).toHaveLength(7)
      expect(metrics['turn_1/left_out']).toBe(1 / 8)
    }
  })

  it('check 51: two of eight truncated completions are a rate of exactly 0.25', async () => {
    const agents = [new ToyClient({ alphabet: 'ab' }), new ToyClient({ alphabet: 'ab' })]
    const { trainer } = toyTrainer({ agents, config: { numGenerations: 8, maxNewTokens: 3, numTrainEpochs: 20 } })
    let seen = 0
    for await (const { nodes, metrics } of trainer.updates()) {
      const cut = nodes[0]!.node.completions[0]!.filter(({ stopReason }) => stopReason === 'length').length
      expect(metrics['agent_0/truncated']).toBe(cut / 8)
      if (cut === 2) seen++
    }
    expect(seen).toBeGreaterThan(0)
  })

  it('check 52: the first on-policy step says that ratios are 1 and shows a gradient norm', async () => {
    const { trainer } = toyTrainer({ config: { maxSteps: 1 } })
    for await (const { notices, metrics } of trainer.updates()) {
      expect(notices.find(({ code }) => code === 'on_policy_loss')?.message).toMatch(/ratio is 1/)
      expect(metrics['agent_0/grad_norm']).toBeGreaterThan(0)
      expect(metrics['agent_0/ratio_max']).toBeCloseTo(1, 4)
    }
  })

  it('check 12: trainer and sampler agree on log-probs at temperature 0.7', async () => {
    const { trainer } = toyTrainer({ config: { temperature: 0.7, numGenerations: 16 } })
    for await (const { metrics } of trainer.updates()) expect(metrics['agent_1/sampler_gap_max']).toBeLessThan(1e-4)
  })

  it('check 9: the end token is trained with its gradient', async () => {
    const agent = new ToyClient({ eosBias: 1 })
    const ends: number[] = []
    agent.onForwardBackward = (data) => {
      for (const { targets, weights, advantages } of data) {
        const last = targets.length - 1
        if (targets[last] === 0) ends.push(weights![last]! * Math.abs(advantages![last]!))
      }
    }
    const { trainer } = toyTrainer({ agents: [agent], config: { numGenerations: 16 } })
    await trainer.train()
    expect(ends.length).toBeGreaterThan(0)
    expect(Math.max(...ends)).toBeGreaterThan(0)
  })
})
