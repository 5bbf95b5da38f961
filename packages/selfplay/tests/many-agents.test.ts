import { createHash } from 'node:crypto'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  createRuntime,
  loadActorCritics,
  loadAgents,
  loadCritic,
  loadTrainingClient,
  type Runtime,
} from '@selfplay/ort'
import type { JointRewardFunction } from '@selfplay/rewards'
import { frozenAgent, IACTrainer, MAACTrainer, MADPOTrainer, MAGRPOTrainer, scriptedAgent } from '@selfplay/trainer'

const folder = (name: string) => fileURLToPath(new URL(`../../../fixtures/models/${name}`, import.meta.url))

let runtime: Runtime
let work: string
beforeAll(async () => {
  runtime = await createRuntime({ threads: 1 })
  work = await mkdtemp(join(tmpdir(), 'selfplay-many-agents-'))
})
afterAll(async () => {
  await runtime.dispose()
  await rm(work, { recursive: true, force: true })
})

/** Characters to ids, in an order of its own, so that no two of these agree. */
class Letters {
  private readonly shift: number
  private readonly size: number

  constructor(size: number, shift: number) {
    this.size = size
    this.shift = shift
  }

  encode(text: string): number[] {
    return Array.from(text, (character) => (character.codePointAt(0)! + this.shift) % this.size)
  }

  decode(ids: readonly number[] | Int32Array): string {
    return Array.from(ids, (id) => String.fromCodePoint(97 + ((id + this.size - this.shift) % 26))).join('')
  }
}

const settings = () => ({ runtime, slots: 4, contextLength: 64 })
const qwen = () => loadTrainingClient(folder('qwen2'), { ...settings(), tokenizer: new Letters(256, 3) })
const llama = () => loadTrainingClient(folder('llama3'), { ...settings(), tokenizer: new Letters(128, 40) })

/** More of the first letters is better; what the agents write alike counts once more. */
const early: JointRewardFunction = ({ completions }) =>
  completions[0]!.map((_, k) => {
    const texts = completions.map((list) => list[k]!)
    const letters = texts.join('')
    return letters.length === 0 ? 0 : Array.from(letters).filter((letter) => letter < 'i').length / letters.length
  })

const trainDataset = ['ab', 'cd', 'ef'].map((prompt) => ({ prompt }))
const config = { numTrainEpochs: 1, maxNewTokens: 6, agentLearningRate: 1e-3, order: 'fixed' } as const

async function hashOf(client: { exportModel(directory: string): Promise<void> }, name: string): Promise<string> {
  const directory = join(work, name)
  await client.exportModel(directory)
  return createHash('sha256')
    .update(await readFile(join(directory, 'model.safetensors')))
    .digest('hex')
}

describe('on onnxruntime', () => {
  it('check 36: two models with tokenizers of their own in one run both change; the frozen one stays to the byte', async () => {
    const [first, second, still] = [await qwen(), await llama(), await llama()]
    const before = [await hashOf(first, 'a0'), await hashOf(second, 'b0'), await hashOf(still, 'c0')]
    expect(before[1]).toBe(before[2])
    const agents = [first, second, frozenAgent(still), scriptedAgent(['abc', 'xyz'])]
    const trainer = new MAGRPOTrainer({
      onNotice: () => {},
      agents,
      trainDataset,
      rewardFunc: early,
      externalTransition: ({ agentCompletions }) => agentCompletions.map((text) => `say ${text.slice(0, 4)}`),
      config: {
        ...config,
        numTurns: 2,
        numGenerations: 2,
        perAgent: [{ maxNewTokens: 3 }, { temperature: 0.7, topK: 5 }, { stop: ['q'] }],
      },
    })
    for await (const { nodes, metrics } of trainer.updates()) {
      const lengths = nodes.flatMap(({ node }) => node.completions[0]!.map(({ tokens }) => tokens.length))
      expect(Math.max(...lengths)).toBeLessThanOrEqual(3)
      expect(metrics['agent_0/sampler_gap']).toBeLessThan(1e-3)
      expect(metrics['agent_1/sampler_gap']).toBeLessThan(1e-3)
      const ids = nodes[0]!.node.prompts.map(({ tokens }) => [...tokens])
      expect(ids[0]).not.toEqual(ids[1])
      expect(ids[3]).toEqual([])
    }
    const after = [await hashOf(first, 'a1'), await hashOf(second, 'b1'), await hashOf(still, 'c1')]
    expect(after[0]).not.toBe(before[0])
    expect(after[1]).not.toBe(before[1])
    expect(after[2]).toBe(before[2])
    await Promise.all([first, second, still].map((client) => client.dispose()))
  })

  it('eight adapters on one base', async () => {
    const tokenizer = new Letters(256, 3)
    const agents = await loadAgents(folder('qwen2'), 8, {
      ...settings(),
      mode: 'adapters',
      lora: { rank: 2 },
      tokenizer,
    })
    const trainer = new MAGRPOTrainer({
      onNotice: () => {},
      agents,
      trainDataset,
      rewardFunc: early,
      config: { ...config, maxSteps: 1 },
    })
    await trainer.train()
    expect(agents.map(({ step }) => step)).toEqual([1, 1, 1, 1, 1, 1, 1, 1])
    await Promise.all(agents.map((agent) => agent.dispose()))
  })

  it('reference KL: the base under a fresh adapter is where it starts; under a trained one it is named', async () => {
    const tokenizer = new Letters(256, 3)
    const loaded = { ...settings(), mode: 'adapters', lora: { rank: 2 }, tokenizer } as const
    const agents = await loadAgents(folder('qwen2'), 2, loaded)
    const base = await qwen()
    const reference = await base.snapshot()
    /** What agent 0's KL is at the first update, before it changes anything. */
    const firstKl = async (references?: readonly (typeof reference | null)[], agentLearningRate = 1e-3) => {
      const trainer = new MAGRPOTrainer({
        onNotice: () => {},
        agents,
        trainDataset,
        rewardFunc: early,
        config: { ...config, agentLearningRate, referenceKl: { estimator: 'k3' } },
        ...(references && { references }),
      })
      const kls: number[] = []
      for await (const { metrics } of trainer.updates()) kls.push(metrics['agent_0/reference_kl']!)
      return kls[0]!
    }
    expect(Math.abs(await firstKl(undefined, 0.05))).toBeLessThan(1e-6) // the adapter adds nothing yet: its start is the base
    expect(await firstKl([reference, null])).toBeGreaterThan(1e-4) // it has moved away from the base
    expect(Math.abs(await firstKl())).toBeLessThan(1e-6) // but not from where this run starts
    await Promise.all([...agents, base].map((client) => client.dispose()))
  })

  it('IAC: agents with value heads take one step for policy and values, and are saved with their heads', async () => {
    const tokenizer = new Letters(256, 3)
    const agents = await loadActorCritics(folder('qwen2'), 2, { ...settings(), tokenizer })
    const trainer = new IACTrainer({
      onNotice: () => {},
      agents,
      trainDataset,
      rewardFunc: early,
      config: { ...config, maxSteps: 2 },
    })
    const losses: number[] = []
    for await (const { metrics } of trainer.updates()) losses.push(metrics['critic_1/value_loss']!)
    expect(losses.every((loss) => loss > 0 && loss < 2)).toBe(true)
    expect(agents.map(({ step }) => step)).toEqual([1, 1])
    await trainer.saveModel(join(work, 'iac'))
    const again = await loadCritic(join(work, 'iac', 'agent_0'), settings())
    const probe = [Int32Array.of(1, 2, 3)]
    expect(await again.values(probe)).toEqual(await agents[0]!.values(probe))
    await Promise.all([...agents, again].map((client) => client.dispose()))
  })

  it('MAAC: a critic of another model reads what all agents are shown', async () => {
    const agents = [await qwen(), await qwen()]
    const tokenizer = new Letters(128, 40)
    const critic = await loadCritic(folder('llama3'), { ...settings(), tokenizer, valueHead: { hiddenSize: 8 } })
    const trainer = new MAACTrainer({
      onNotice: () => {},
      agents,
      critic,
      trainDataset,
      rewardFunc: early,
      config: {
        ...config,
        numGenerations: 2,
        criticType: 'q',
        criticUpdates: 8,
        criticLearningRate: 1e-2,
        maxSteps: 4,
        numTrainEpochs: 4,
      },
    })
    const losses: number[] = []
    for await (const { metrics } of trainer.updates()) losses.push(metrics['critic/value_loss']!)
    expect(losses.at(-1)!).toBeLessThan(losses[0]!)
    expect(critic.step).toBe(32)
    await Promise.all([...agents, critic].map((client) => client.dispose()))
  })

  it('MADPO: the loss starts at log 2 and falls', async () => {
    const agents = [await qwen(), await llama()]
    const trainer = new MADPOTrainer({
      onNotice: () => {},
      agents,
      trainDataset,
      rewardFunc: early,
      config: {
        preferenceNumCandidates: 8,
        preferencePairsPerSample: 4,
        maxNewTokens: 5,
        agentLearningRate: 2e-3,
        numTrainEpochs: 3,
      },
    })
    const losses: number[] = []
    for await (const { loss } of trainer.updates()) losses.push(loss)
    expect(losses[0]).toBeCloseTo(Math.log(2), 4)
    expect(losses.at(-1)!).toBeLessThan(losses[0]! - 0.02)
    await Promise.all(agents.map((client) => client.dispose()))
  })
})
