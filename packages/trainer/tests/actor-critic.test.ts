import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { CheckpointError, NonFiniteError } from '@selfplay/engine'
import { describeCritic } from '@selfplay/engine/testing'
import { IACTrainer, MAACTrainer, type IACConfig, type MAACConfig } from '../src/actor-critic/index.js'
import { ConfigError } from '../src/errors.js'
import { frozenAgent, scriptedAgent } from '../src/magrpo/agents.js'
import type { AnalysedNode } from '../src/magrpo/analyse.js'
import type { ExternalTransition, PromptRow } from '../src/magrpo/types.js'
import { countA, exact, inTurns, readLines, rows, temporaryFolder } from './support/setup.js'
import { ToyClient } from './support/toy-client.js'
import { ToyActorCritic, ToyCritic } from './support/toy-critic.js'

describeCritic('the toy critic', { makeCritic: () => Promise.resolve(new ToyCritic()) })

const base = {
  numTrainEpochs: 2,
  promptsPerUpdate: 4,
  maxNewTokens: 4,
  agentLearningRate: 0.05,
  criticLearningRate: 0.05,
  order: 'fixed',
} as const
const again: ExternalTransition<PromptRow> = ({ agentCompletions }) => agentCompletions.map((text) => `b${text}`)

type IacOptions = Partial<ConstructorParameters<typeof IACTrainer<PromptRow>>[0]>
function iac({ config, ...options }: IacOptions = {}) {
  const agents = (options.agents ?? [new ToyClient(), new ToyClient({ seed: 1 })]) as ToyClient[]
  const critics = (options.critics ?? [new ToyCritic(), new ToyCritic()]) as ToyCritic[]
  const trainer = new IACTrainer<PromptRow>({
    rewardFunc: countA,
    trainDataset: rows(4),
    onNotice: () => {},
    ...inTurns(config?.numTurns, again),
    ...options,
    agents,
    critics,
    config: { ...base, ...config },
  })
  return { trainer, agents, critics }
}

type MaacOptions = Partial<ConstructorParameters<typeof MAACTrainer<PromptRow>>[0]>
function maac({ config, ...options }: MaacOptions = {}) {
  const agents = (options.agents ?? [new ToyClient(), new ToyClient({ seed: 1 })]) as ToyClient[]
  const critic = (options.critic ?? new ToyCritic({ contextLength: 1000 })) as ToyCritic
  const trainer = new MAACTrainer<PromptRow>({
    rewardFunc: countA,
    trainDataset: rows(4),
    onNotice: () => {},
    ...inTurns(config?.numTurns, again),
    ...options,
    agents,
    critic,
    config: { ...base, ...config },
  })
  return { trainer, agents, critic }
}

async function firstUpdate(trainer: IACTrainer<PromptRow> | MAACTrainer<PromptRow>) {
  for await (const update of trainer.updates()) return update
  throw new Error('no update')
}

/** The values that a fresh toy critic gives. */
const fresh = async (sequences: readonly Int32Array[]) => new ToyCritic({ contextLength: 1000 }).values(sequences)

/** [node][k] of one agent. */
const groupsOf = (nodes: readonly AnalysedNode[], agent: number) => nodes.map(({ groups }) => groups[agent]!)

describe('IACTrainer', () => {
  it('v: the target is the reward plus the discounted value of the next prompt, and what was expected the value of this one', async () => {
    const { trainer, critics } = iac({
      config: { numTurns: 2, discount: 0.5, advantageNormalization: false, promptsPerUpdate: 1 },
    })
    const { nodes, metrics } = await firstUpdate(trainer)
    const [first, second] = nodes.map(({ node }) => node)
    for (const agent of [0, 1]) {
      const [here, next] = await fresh([first!.prompts[agent]!.tokens, second!.prompts[agent]!.tokens])
      const [r1, r2] = [first!.answers[0]!.rewards[agent]!, second!.answers[0]!.rewards[agent]!]
      const [one, two] = groupsOf(nodes, agent)
      expect(one!.returns[0]).toBeCloseTo(r1 + 0.5 * next!, 5)
      expect(one!.advantages[0]).toBeCloseTo(r1 + 0.5 * next! - here!, 5)
      expect(two!.returns[0]).toBeCloseTo(r2, 5)
      expect(two!.advantages[0]).toBeCloseTo(r2 - next!, 5)
      expect([...critics[agent]!.lessons[0]!.targets]).toEqual(
        [one, two].map((group) => Math.fround(group!.returns[0]!)),
      )
    }
    expect(metrics['critic_0/value_loss']).toBeGreaterThan(0)
    expect(metrics['turn_2/value_loss']).toBeGreaterThan(0)
    expect(metrics['turn_1/expected_return']).toBeCloseTo(
      first!.answers[0]!.rewards[0]! + 0.5 * second!.answers[0]!.rewards[0]!,
    )
  })

  it('q: an answer is compared with the values of the other answers, never with its own', async () => {
    const { trainer } = iac({
      config: { criticType: 'q', numGenerations: 3, advantageNormalization: false, promptsPerUpdate: 1 },
    })
    const { nodes } = await firstUpdate(trainer)
    const { node, groups } = nodes[0]!
    const sequences = node.completions[0]!.map(({ tokens }) => Int32Array.from([...node.prompts[0]!.tokens, ...tokens]))
    const q = await fresh(sequences)
    groups[0]!.advantages.forEach((advantage, k) => {
      const others = [...q].filter((_, other) => other !== k)
      const expected = (others[0]! + others[1]!) / 2
      expect(groups[0]!.expected![k]).toBeCloseTo(expected, 5)
      expect(advantage).toBeCloseTo(node.answers[k]!.rewards[0]! - expected, 5)
    })
  })

  it('crossed answers: a completion has the mean target of the joint answers that use it', async () => {
    const { trainer } = iac({
      config: { numGenerations: 2, jointMode: 'cross', advantageNormalization: false, promptsPerUpdate: 1 },
    })
    const { nodes } = await firstUpdate(trainer)
    const { node, groups } = nodes[0]!
    const rewards = node.answers.map((answer) => answer.rewards[1]!)
    expect(groups[1]!.returns).toEqual([(rewards[0]! + rewards[2]!) / 2, (rewards[1]! + rewards[3]!) / 2])
  })

  it('an answer that ended early stands for the turns that it did not take', async () => {
    const { trainer } = iac({
      config: { numTurns: 3, discount: 0.5, earlyTerminationThreshold: -1, advantageNormalization: false },
    })
    const { nodes } = await firstUpdate(trainer)
    for (const { node, groups } of nodes) {
      expect(node.answers[0]!.ending).toBe('terminated')
      expect(groups[0]!.returns[0]).toBeCloseTo(node.answers[0]!.rewards[0]! * 1.75, 6)
    }
  })

  it('takes the penalty of a reference off the targets, and the critic learns them with it', async () => {
    const references = [await new ToyClient({ seed: 7 }).snapshot(), null]
    const config = { referenceKl: { coef: 0.5 }, advantageNormalization: false, promptsPerUpdate: 1 } as const
    const { trainer, critics } = iac({ references, config })
    const { nodes } = await firstUpdate(trainer)
    const { node, groups } = nodes[0]!
    const kl = groups[0]!.kls![0]!
    expect(Math.abs(kl)).toBeGreaterThan(1e-3)
    expect(groups[0]!.returns[0]).toBeCloseTo(node.answers[0]!.rewards[0]! - 0.5 * kl, 6)
    expect(groups[1]!.returns[0]).toBe(node.answers[0]!.rewards[1])
    expect(critics[0]!.lessons[0]!.targets[0]).toBe(Math.fround(groups[0]!.returns[0]!))
  })

  it('normalises advantages over the update, agent by agent and turn by turn', async () => {
    const { trainer } = iac({ config: { numTurns: 2 } })
    const { nodes } = await firstUpdate(trainer)
    for (const agent of [0, 1]) {
      for (const turn of [1, 2]) {
        const ofTurn = nodes.filter(({ node }) => node.turn === turn)
        const own: number[] = groupsOf(ofTurn, agent).map(({ advantages }) => advantages[0] ?? Number.NaN)
        expect(own).toHaveLength(4)
        const mean = own.reduce((a, b) => a + b, 0) / 4
        expect(mean).toBeCloseTo(0, 8)
        expect(own.reduce((sum, x) => sum + x ** 2, 0) / 4).toBeCloseTo(1, 8)
      }
    }
  })

  it('learns: rewards rise, and the critics come to know them', async () => {
    const { trainer, critics } = iac({ config: { numTrainEpochs: 40, numGenerations: 2, criticUpdates: 5 } })
    const rewards: number[] = []
    const gaps: number[] = []
    for await (const { rewardMean, metrics } of trainer.updates()) {
      rewards.push(rewardMean)
      gaps.push(metrics['critic_0/target_mean']! - metrics['critic_0/value_mean']!)
    }
    const mean = (values: readonly number[]) => values.reduce((a, b) => a + b, 0) / values.length
    expect(mean(rewards.slice(-5))).toBeGreaterThan(mean(rewards.slice(0, 5)) + 0.6)
    expect(gaps[0]).toBeGreaterThan(0.5)
    expect(Math.abs(mean(gaps.slice(-15)))).toBeLessThan(0.25)
    expect(critics.map(({ step }) => step)).toEqual([200, 200])
  })

  it('agents that judge themselves take one step for both', async () => {
    const agents = [new ToyActorCritic(), new ToyActorCritic({ seed: 1 })]
    const trainer = new IACTrainer<PromptRow>({
      agents,
      rewardFunc: countA,
      trainDataset: rows(4),
      onNotice: () => {},
      config: { ...base, criticLearningRate: null, numTrainEpochs: 1 },
    })
    const before = agents.map(({ critic }) => [...critic.weights])
    const { metrics } = await firstUpdate(trainer)
    expect(agents.map(({ step }) => step)).toEqual([1, 1])
    agents.forEach(({ critic }, agent) => expect([...critic.weights]).not.toEqual(before[agent]))
    expect(agents[0]!.critic.lessons[0]!.loss).toEqual({ coef: 0.6 })
    expect(metrics['critic_0/learning_rate']).toBe(0.05)
    expect(metrics['critic_0/grad_norm']).toBeUndefined()
  })

  it('works beside frozen and scripted agents, which need no critic', async () => {
    const trained = new ToyClient()
    const { trainer } = iac({
      agents: [trained, frozenAgent(new ToyClient()), scriptedAgent(['aab'])],
      critics: [new ToyCritic(), null, null],
    })
    const { nodes } = await firstUpdate(trainer)
    expect(trained.step).toBe(1)
    expect(nodes[0]!.groups.map(({ constant }) => constant)).toEqual([false, true, true])
  })

  it('a critic with another tokenizer reads text', async () => {
    const critic = new ToyCritic({ alphabet: 'hgfedcba xyz' })
    const { trainer } = iac({ agents: [new ToyClient()], critics: [critic] })
    const { nodes } = await firstUpdate(trainer)
    expect([...critic.asked[0]![0]!]).toEqual(critic.tokenizer!.encode(nodes[0]!.node.prompts[0]!.text))
  })
})

describe('MAACTrainer', () => {
  it('shows one critic what all agents are shown, were shown and answered', async () => {
    const read: string[] = []
    const critic = new ToyCritic({ contextLength: 2000 })
    const encode = critic.tokenizer!.encode.bind(critic.tokenizer)
    critic.tokenizer!.encode = (text) => {
      read.push(text)
      return encode(text)
    }
    const config: MAACConfig = { criticType: 'q', numGenerations: 2, numTurns: 2, promptsPerUpdate: 1 }
    const { trainer } = maac({ critic, config })
    const { nodes } = await firstUpdate(trainer)
    expect(nodes).toHaveLength(3)
    const [root, child] = nodes.map(({ node }) => node)
    const texts = root!.completions.map((list) => list[0]!.text)
    expect(read[0]).toBe(
      `[Agent 1 is shown]\na\n\n[Agent 2 is shown]\na\n\n[Agent 1 answers]\n${texts[0]}\n\n[Agent 2 answers]\n${texts[1]}`,
    )
    expect(read[2]!.startsWith(`[Agent 1 was shown]\na\n\n[Agent 2 was shown]\na\n\n[Agent 1 answered]\n`)).toBe(true)
    expect(read[2]).toContain(`[Agent 2 is shown]\n${child!.prompts[1]!.text}`)
    expect(critic.step).toBe(1)
    expect(critic.lessons[0]!.sequences).toHaveLength(6)
  })

  it('learns the mean of rewards that agents have of their own', async () => {
    const { trainer, critic } = maac({
      rewardFunc: ({ completions }) => ({ perAgent: completions.map((texts, agent) => texts.map(() => 2 * agent)) }),
      config: { promptsPerUpdate: 1, advantageNormalization: false },
    })
    const { nodes } = await firstUpdate(trainer)
    expect([...critic.lessons[0]!.targets]).toEqual([1])
    expect(groupsOf(nodes, 1)[0]!.returns).toEqual([2])
    const [zero, one] = nodes[0]!.groups.map(({ expected }) => expected![0])
    expect(zero).toBe(one)
  })

  it('says how much of what the critic was to read did not fit', async () => {
    const { trainer, critic } = maac({ critic: new ToyCritic({ contextLength: 20 }) })
    const { metrics } = await firstUpdate(trainer)
    expect(metrics['critic/truncated']).toBe(1)
    expect(critic.asked[0]!.every(({ length }) => length === 20)).toBe(true)
  })
})

describe('a run with critics', () => {
  const settings = { numTrainEpochs: 4, promptsPerUpdate: 1, checkpointEvery: 4 }

  it('check 48: ten updates equal five, a restart, and five; a missing critic is refused', async () => {
    const whole = iac({ run: await temporaryFolder(), config: { ...settings, maxSteps: 10 } })
    await whole.trainer.train()
    const directory = await temporaryFolder()
    await iac({ run: directory, config: { ...settings, maxSteps: 5 } }).trainer.train()
    const rest = iac({ run: { directory, resume: true }, config: { ...settings, maxSteps: 10 } })
    const { checkpoint } = await rest.trainer.train()
    expect(rest.critics.map(({ weights }) => [...weights])).toEqual(whole.critics.map(({ weights }) => [...weights]))
    expect(rest.agents.map(({ weights }) => [...weights])).toEqual(whole.agents.map(({ weights }) => [...weights]))
    await rm(join(checkpoint!, 'critic_1'), { recursive: true })
    const refused = iac({ run: { directory, resume: checkpoint! }, config: { ...settings, maxSteps: 12 } })
    await expect(refused.trainer.train()).rejects.toThrow(CheckpointError)
  })

  it('repeats itself, tells its trainer and settings, and saves critics beside agents', async () => {
    const runs = await Promise.all(
      [0, 1].map(async () => {
        const directory = await temporaryFolder()
        const { trainer } = maac({ run: directory, config: settings })
        await trainer.train()
        return { directory, trainer, rows: (await readLines(join(directory, 'metrics.jsonl'))).map(exact) }
      }),
    )
    expect(runs[0]!.rows).toEqual(runs[1]!.rows)
    const { directory, trainer } = runs[0]!
    const models = await temporaryFolder()
    await trainer.saveModel(models)
    const manifest = JSON.parse(await readFile(join(models, 'manifest.json'), 'utf8')) as {
      critics: { path: string }[]
    }
    expect(manifest.critics.map(({ path }) => path)).toEqual(['critic'])
    const described = JSON.parse(await readFile(join(directory, 'config.json'), 'utf8')) as Record<string, unknown>
    expect(described['trainer']).toBe('MAAC')
    expect(described['config']).toMatchObject({ criticType: 'v', criticHistory: true, discount: 0.9 })
    const [line] = await readLines(join(directory, 'rollouts.jsonl'))
    expect((line!['expected'] as number[][])[0]![0]).toBeTypeOf('number')
  })

  it('refuses to go on with other settings of the critic', async () => {
    const directory = await temporaryFolder()
    await iac({ run: directory, config: { ...settings, maxSteps: 1 } }).trainer.train()
    const other = iac({ run: { directory, resume: true }, config: { ...settings, valueLossCoef: 0.3 } })
    await expect(other.trainer.train()).rejects.toThrow(/valueLossCoef was 0.6 and is 0.3/)
  })

  it('check 18: a value loss that is not finite names its place; no critic changes', async () => {
    const { trainer, critics } = iac({ rewardFunc: ({ completions }) => completions[0]!.map(() => 3e38) })
    const failure = await trainer.train().catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(NonFiniteError)
    expect((failure as NonFiniteError).details).toMatchObject({ critic: 'critic_0', row: 0, turn: 1 })
    expect(critics.map(({ step }) => step)).toEqual([0, 0])
  })
})

describe('check 57: every option of the critics changes something', () => {
  const plain = { criticType: 'v', numGenerations: 2, numTurns: 2, criticUpdates: 2, maxSteps: 2 } as const
  const changed: { readonly [K in keyof MAACConfig]?: MAACConfig } = {
    criticType: { criticType: 'q' },
    criticLearningRate: { criticLearningRate: 0.01 },
    valueLossCoef: { valueLossCoef: 0.1 },
    criticUpdates: { criticUpdates: 3 },
    valueClipRange: { valueClipRange: 0.01 },
    criticHistory: { criticHistory: false },
  }
  const outcome = async (config: MAACConfig) => {
    const { trainer, critic } = maac({ config: { ...plain, ...config } })
    await trainer.train()
    return [...critic.weights]
  }

  it.each(Object.entries(changed))('%s', async (_, config) => {
    expect(await outcome(config!)).not.toEqual(await outcome({}))
  })
})

describe('what cannot work is refused', () => {
  const bad: [string, () => unknown, RegExp][] = [
    ['q with one answer', () => iac({ config: { criticType: 'q' } }), /numGenerations is 1/],
    ['a clip that cannot matter', () => iac({ config: { valueClipRange: 0.2 } }), /criticUpdates/],
    ['an unknown option', () => iac({ config: { criticTyp: 'v' } as IACConfig }), /did you mean "criticType"/],
    ['a baseline', () => iac({ config: { advantageMode: 'rloo' } as IACConfig }), /no option "advantageMode"/],
    ['too few critics', () => iac({ critics: [new ToyCritic()] }), /one per agent \(2\), got 1/],
    ['no critic for a trained agent', () => iac({ critics: [new ToyCritic(), null] }), /critics\[1\]/],
    [
      'agents without heads',
      () => new IACTrainer({ agents: [new ToyClient()], rewardFunc: countA, trainDataset: rows(1), config: base }),
      /loadActorCritics/,
    ],
    ['a critic of another vocabulary', () => iac({ critics: [odd(), odd()] }), /vocabulary/],
    ['no shared critic', () => maac({ critic: new ToyClient() as unknown as ToyCritic }), /loadCritic/],
    [
      'an agent as the shared critic',
      () => {
        const both = new ToyActorCritic()
        return maac({ agents: [both], critic: both as unknown as ToyCritic })
      },
      /weights of its own/,
    ],
    [
      'a name that is nearly right',
      () => new IACTrainer({ agents: [], critic: [] } as never),
      /did you mean "critics"/,
    ],
  ]
  const odd = () => new ToyCritic({ alphabet: 'xy', tokenizer: false })

  it.each(bad)('%s', (_, make, message) => {
    expect(make).toThrow(ConfigError)
    expect(make).toThrow(message)
  })
})
