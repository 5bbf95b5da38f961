import type { Loss } from '@selfplay/engine'
import { describe, expect, it } from 'vitest'
import { frozenAgent, scriptedAgent, type Agent } from '../src/magrpo/agents.js'
import { MAGRPOTrainer } from '../src/magrpo/trainer.js'
import { countA, rows, toyTrainer } from './support/setup.js'
import { ToyClient } from './support/toy-client.js'

function trainerOf(agents: readonly Agent[], config = {}) {
  return new MAGRPOTrainer({
    agents,
    rewardFunc: countA,
    trainDataset: rows(3),
    onNotice: () => {},
    config: { numTrainEpochs: 2, maxNewTokens: 6, agentLearningRate: 0.05, ...config },
  })
}

describe('agents', () => {
  it('check 36: two policies with different vocabularies both change; freezing one leaves its bytes identical', async () => {
    const make = () => [new ToyClient({ alphabet: 'abc' }), new ToyClient({ alphabet: 'abcdefghijkl', seed: 5 })]
    const before = make().map(({ weights }) => [...weights])
    const both = make()
    await trainerOf(both).train()
    both.forEach(({ weights }, i) => expect([...weights]).not.toEqual(before[i]))
    const [first, second] = make()
    await trainerOf([first!, frozenAgent(second!)]).train()
    expect([...first!.weights]).not.toEqual(before[0])
    expect([...second!.weights]).toEqual(before[1])
    expect(second!.calls.optimStep + second!.calls.forwardBackward).toBe(0)
  })

  it('two to eight agents, some scripted, some a frozen snapshot', async () => {
    const policy = new ToyClient()
    const past = frozenAgent(await policy.snapshot(), { tokenizer: policy.tokenizer, eosTokenIds: [0] })
    const prompts: string[] = []
    const agents: Agent[] = [
      policy,
      policy,
      past,
      scriptedAgent(['aa', 'b']),
      scriptedAgent(({ prompt, agent, generation, row }) => {
        prompts.push(prompt)
        return `${(row as { prompt: string }).prompt}${agent}${generation}`
      }),
      new ToyClient({ seed: 3 }),
      scriptedAgent(['a']),
      scriptedAgent(['']),
    ]
    const trainer = trainerOf(agents)
    for await (const { nodes, metrics } of trainer.updates()) {
      const { completions } = nodes[0]!.node
      expect(completions).toHaveLength(8)
      expect(completions[3]!.map(({ text }) => text)).toEqual(['aa', 'b', 'aa', 'b'])
      expect(completions[4]![1]!.text).toMatch(/^[abc]41$/)
      expect(metrics['agent_3/length_chars']).toBe(1.5)
      expect(metrics).not.toHaveProperty(['agent_3/optim_steps'])
      expect(metrics).not.toHaveProperty(['agent_2/grad_norm'])
    }
    expect(prompts.length).toBe(6 * 4)
    expect(policy.step).toBe(6)
  })

  it('has rewards of its own for each agent', async () => {
    const { trainer } = toyTrainer({
      rewardFunc: ({ completions }) => ({
        perAgent: completions.map((_, agent) => completions[0]!.map((__, k) => (agent === 0 ? k : -k))),
      }),
      config: { maxSteps: 1, advantageNormalization: false },
    })
    for await (const { nodes, metrics } of trainer.updates()) {
      expect(nodes[0]!.groups.map(({ advantages }) => advantages)).toEqual([
        [-1.5, -0.5, 0.5, 1.5],
        [1.5, 0.5, -0.5, -1.5],
      ])
      expect(metrics).toMatchObject({
        'agent_0/turn_1/reward_mean': 1.5,
        'agent_1/turn_1/reward_mean': -1.5,
        'turn_1/reward_mean': 0,
      })
    }
  })

  it('samples and learns with settings of its own', async () => {
    const seen: object[][] = [[], []]
    const agents = [new ToyClient(), new ToyClient()]
    agents.forEach(
      (agent, i) =>
        (agent.onSample = ({ maxTokens, temperature, topK, stop }) =>
          void seen[i]!.push({ maxTokens, temperature, topK, stop })),
    )
    const { trainer } = toyTrainer({
      agents,
      config: {
        maxSteps: 1,
        perAgent: [null, { maxNewTokens: 9, temperature: 0.7, topK: 3, stop: ['b'], learningRate: 0.5 }],
      },
    })
    for await (const { metrics } of trainer.updates()) {
      expect(metrics['agent_0/learning_rate']).toBe(0.05)
      expect(metrics['agent_1/learning_rate']).toBe(0.5)
    }
    expect(seen).toEqual([
      [{ maxTokens: 6, temperature: 1, topK: undefined, stop: [0] }],
      [{ maxTokens: 9, temperature: 0.7, topK: 3, stop: [0, 'b'] }],
    ])
  })

  it('shows texts without what ended them', async () => {
    const { trainer } = toyTrainer({ config: { stop: ['cd', 2], maxNewTokens: 30, numGenerations: 16 } })
    let stops = 0
    for await (const { nodes } of trainer.updates()) {
      for (const { text, stopReason, tokens } of nodes[0]!.node.completions[0]!) {
        expect(text).not.toMatch(/<eos>|cd|b/)
        if (stopReason === 'stop') stops += tokens.length > 0 ? 1 : 0
      }
    }
    expect(stops).toBeGreaterThan(10)
  })

  it('refuses one client trained in one place and frozen in another, and two rates for one policy', () => {
    const client = new ToyClient()
    expect(() => trainerOf([client, frozenAgent(client)])).toThrow(
      /one client, trained in one place and frozen in the other/,
    )
    expect(() => trainerOf([client, client], { perAgent: [{ learningRate: 1 }] })).toThrow(
      /share weights but have learning rates/,
    )
    expect(() => trainerOf([frozenAgent(client)])).toThrow(/at least one to train/)
    expect(() => scriptedAgent([])).toThrow(/at least one reply/)
  })

  it.each([
    { maxConcurrentPolicies: 1, sideBySide: true, most: 1 },
    { maxConcurrentPolicies: 2, sideBySide: false, most: 2 },
    { maxConcurrentPolicies: null, sideBySide: false, most: 1 },
    { maxConcurrentPolicies: null, sideBySide: true, most: 2 },
  ])(
    'works on as many policies at once as told: $maxConcurrentPolicies, made for it: $sideBySide',
    async ({ maxConcurrentPolicies, sideBySide, most }) => {
      let running = 0
      let found = 0
      const agents = [new ToyClient(), new ToyClient()]
      for (const agent of agents) {
        Object.assign(agent, { info: { ...agent.info, sideBySide } })
        agent.onSample = async () => {
          running++
          found = Math.max(found, running)
          await new Promise((resolve) => setTimeout(resolve, 5))
          running--
        }
      }
      await toyTrainer({ agents, config: { maxSteps: 1, maxConcurrentPolicies } }).trainer.train()
      expect(found).toBe(most)
    },
  )

  it('are told which loss they will be trained with before they sample', async () => {
    const told: string[] = []
    const agent = new ToyClient()
    Object.assign(agent, { prepare: ({ name }: Loss) => told.push(name) })
    agent.onSample = async () => void told.push('sample')
    await toyTrainer({ agents: [agent], config: { maxSteps: 1 } }).trainer.train()
    expect(told.slice(0, 2)).toEqual(['importance_sampling', 'sample'])
  })

  it('reads answers of chats through the renderer', async () => {
    const client = new ToyClient({ contextLength: 400 })
    const renderer = {
      stop: [3],
      generationPrompt: (messages: readonly { content: unknown }[]) =>
        Int32Array.from([8, ...client.tokenizer.encode(String(messages[0]!.content))]),
      parse: (ids: readonly number[] | Int32Array) => ({
        message: { role: 'assistant' as const, content: `<${client.tokenizer.decode(ids)}>` },
        termination: 'stop' as const,
        isClean: true,
      }),
    }
    const agent = Object.assign(client, { renderer })
    const trainer = new MAGRPOTrainer({
      agents: [agent],
      onNotice: () => {},
      rewardFunc: ({ completions, prompts }) => {
        expect(prompts).toEqual(['hab'])
        return completions[0]!.map((text) => text.length)
      },
      trainDataset: [{ prompt: [{ role: 'user' as const, content: 'ab' }] }],
      config: { maxSteps: 1 },
    })
    for await (const { nodes } of trainer.updates()) {
      expect(nodes[0]!.node.completions[0]!.every(({ text }) => /^<.*>$/.test(text))).toBe(true)
    }
  })
})

describe('reference KL', () => {
  it('check 56: it is 0 before the first step, then grows; a strong one holds the policy back', async () => {
    const drift = async (coef: number) => {
      const { trainer } = toyTrainer({
        config: {
          referenceKl: { coef },
          numTrainEpochs: 30,
          numGenerations: 8,
          agentLearningRate: 0.02,
          advantageNormalization: false,
        },
      })
      const kls: number[] = []
      for await (const { metrics } of trainer.updates()) kls.push(metrics['agent_0/reference_kl']!)
      return kls
    }
    const weak = await drift(0.001)
    expect(weak[0]).toBeCloseTo(0, 6)
    const last = (kls: number[]) => kls.slice(-20).reduce((sum, kl) => sum + kl, 0) / 20
    expect(last(weak)).toBeGreaterThan(0.1)
    expect(last(await drift(3))).toBeLessThan(last(weak) / 2)
  })
})
