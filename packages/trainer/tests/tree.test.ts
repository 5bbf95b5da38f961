import { describe, expect, it } from 'vitest'
import { lengthRatioReward, type JointRewardArgs } from '@selfplay/rewards'
import { parseRecord, fromRecords } from '../src/magrpo/record.js'
import { creditTree } from '../src/magrpo/credit.js'
import { groupAdvantages, updateBaselines } from '../src/magrpo/advantages.js'
import { comlrlDefaults } from '../src/magrpo/config.js'
import { sequenceKl } from '../src/magrpo/reference-kl.js'
import { jointGenerations } from '../src/magrpo/tree.js'
import type { JointNode, TransitionArgs, PromptRow } from '../src/magrpo/types.js'
import { join } from 'node:path'
import { countA, readLines, rows, temporaryFolder, toyTrainer } from './support/setup.js'
import { ToyClient } from './support/toy-client.js'

const two = { numTurns: 2, numGenerations: 3, maxSteps: 1 }
const echo = ({ agentCompletions }: TransitionArgs<PromptRow>) => agentCompletions.map((text) => `a${text}`)

describe('several turns', () => {
  it('gives the transition and the reward what they are promised', async () => {
    const asked: TransitionArgs<PromptRow>[] = []
    const judged: JointRewardArgs<PromptRow>[] = []
    const { trainer } = toyTrainer({
      config: { ...two, numTurns: 3, numGenerations: 2 },
      trainDataset: [{ prompt: 'b' }],
      externalTransition: (args) => {
        asked.push(args)
        return echo(args)
      },
      rewardFunc: (args, options) => {
        judged.push(args)
        return countA(args, options)
      },
    })
    await trainer.train()
    expect(judged).toHaveLength(1 + 2 + 4)
    expect(asked).toHaveLength(2 + 4)
    for (const { prompt, turn, promptHistory, responseHistory, agentCompletions, row } of asked) {
      expect(prompt).toBe('b')
      expect(row).toEqual({ prompt: 'b' })
      for (const agent of [0, 1]) {
        expect(promptHistory[agent]).toHaveLength(turn)
        expect(responseHistory[agent]).toHaveLength(turn)
        expect(promptHistory[agent]![0]).toBe('b')
        expect(responseHistory[agent]!.at(-1)).toBe(agentCompletions[agent])
        expect(promptHistory[agent]!.slice(1)).toEqual(
          responseHistory[agent]!.slice(0, turn - 1).map((text) => `a${text}`),
        )
      }
    }
    const last = judged.at(-1)!
    expect(last.turn).toBe(3)
    expect(last.prompts[0]).toBe(`a${last.history.responses[0]![1]}`)
    expect(last.history.prompts[1]).toHaveLength(2)
    expect(last.completions.map((texts) => texts.length)).toEqual([2, 2])
  })

  it('samples all sibling nodes of a policy at the same time', async () => {
    const { trainer, agents } = toyTrainer({ config: { ...two, numGenerations: 4 }, externalTransition: echo })
    await trainer.train()
    expect(agents[0]!.calls.sample).toBe(1 + 4)
    expect(agents[0]!.calls.concurrent).toBe(4)
  })

  it('trains the whole tree in one step, with prompts and tokens as they were', async () => {
    const { trainer, agents } = toyTrainer({ config: two, externalTransition: echo })
    let seen: string[] = []
    agents[0]!.onForwardBackward = (data) => {
      seen = data.map(({ tokens, targets }) => agents[0]!.tokenizer.decode([tokens[0]!, ...targets]))
    }
    for await (const { nodes } of trainer.updates()) {
      expect(nodes).toHaveLength(4)
      const expected = nodes.flatMap(({ node, groups }) =>
        groups[0]!.constant
          ? []
          : node.completions[0]!.map(({ tokens }) => node.prompts[0]!.text + agents[0]!.tokenizer.decode(tokens)),
      )
      expect(seen).toEqual(expected)
    }
    expect(agents.map(({ step }) => step)).toEqual([1, 1])
  })

  it('check 26: rewards 1, 0, 2 over three turns have returns by the discount', async () => {
    const { trainer } = toyTrainer({
      config: {
        numTurns: 3,
        numGenerations: 1,
        advantageMode: 'none',
        discount: 0.5,
        maxSteps: 1,
        maxSamplerGap: null,
      },
      externalTransition: echo,
      rewardFunc: ({ turn }) => [[1, 0, 2][turn - 1]!],
    })
    for await (const { nodes } of trainer.updates()) {
      expect(nodes.map(({ jointReturns }) => jointReturns[0]![0])).toEqual([1 + 0.5 * (0 + 0.5 * 2), 0 + 0.5 * 2, 2])
    }
  })

  it('check 30: crossed returns do not grow with the number of generations', async () => {
    const spread = async (numGenerations: number) => {
      const { trainer } = toyTrainer({
        config: { numGenerations, jointMode: 'cross', advantageNormalization: false, maxSteps: 1 },
        rewardFunc: ({ completions }) => {
          const K = numGenerations
          return completions[0]!.map((_, j) => (Math.floor(j / K) < K / 2 ? 1 : 0))
        },
      })
      for await (const { nodes } of trainer.updates()) {
        return Math.max(...nodes[0]!.groups[0]!.advantages.map((value) => Math.abs(value!)))
      }
      return Number.NaN
    }
    expect(await spread(2)).toBeCloseTo(0.5, 12)
    expect(await spread(8)).toBeCloseTo(0.5, 12)
  })

  it('check 40: by default turn 2 happens for rewards that are never negative', async () => {
    const { trainer } = toyTrainer({ config: two, externalTransition: echo, rewardFunc: lengthRatioReward() })
    for await (const { metrics } of trainer.updates()) expect(metrics['turn_2/joint_answers']).toBe(9)
  })

  it('says why when turn 2 never happens', async () => {
    const { trainer } = toyTrainer({
      config: { ...two, maxSteps: null, earlyTerminationThreshold: -0.2 },
      externalTransition: echo,
      rewardFunc: lengthRatioReward(),
    })
    const told: string[] = []
    for await (const { notices, metrics } of trainer.updates()) {
      told.push(...notices.filter(({ code }) => code === 'no_second_turn').map(({ message }) => message))
      expect(metrics).not.toHaveProperty(['turn_2/reward_mean'])
      expect(metrics['turn_1/terminated']).toBe(1)
    }
    expect(told).toHaveLength(1)
    expect(told[0]).toMatch(/not happened once .*threshold -0.2/)
  })

  it('tells answers that ended from those that were left out, when turn 2 never happens', async () => {
    const { trainer } = toyTrainer({
      config: { ...two, maxSteps: null, earlyTerminationThreshold: 0 },
      externalTransition: echo,
      rewardFunc: ({ completions }) => completions[0]!.map((_, k) => (k === 0 ? null : 1)),
    })
    const told: string[] = []
    for await (const { notices } of trainer.updates()) {
      told.push(...notices.filter(({ code }) => code === 'no_second_turn').map(({ message }) => message))
    }
    const [, all, left, ended] = /of (\d+) joint .* (\d+) were left out .*, and (\d+) ended early/.exec(told[0]!)!
    expect(Number(left) + Number(ended)).toBe(Number(all))
    expect(Number(left)).toBeGreaterThan(0)
  })

  it('says when a threshold was never reached, with the numbers', async () => {
    const { trainer } = toyTrainer({
      config: { ...two, maxSteps: null, earlyTermination: { threshold: 5 } },
      externalTransition: echo,
      rewardFunc: lengthRatioReward(),
    })
    const told: string[] = []
    for await (const { notices } of trainer.updates()) told.push(...notices.map(({ message }) => message))
    expect(
      told.filter((message) => /highest raw reward of \d+ joint answers is .*threshold is 5/.test(message)),
    ).toHaveLength(1)
  })

  it('compares the threshold with raw or processed rewards', async () => {
    const run = async (on: 'raw' | 'processed') => {
      const { trainer } = toyTrainer({
        config: { ...two, earlyTermination: { threshold: 0.9, on } },
        externalTransition: echo,
        rewardFunc: ({ completions }) => completions[0]!.map((_, k) => 0.1 * k),
        rewardProcessor: (reward) => 100 * reward,
      })
      for await (const { metrics } of trainer.updates()) return metrics['turn_1/terminated']
      return undefined
    }
    expect(await run('raw')).toBe(0)
    expect(await run('processed')).toBeCloseTo(2 / 3, 12)
  })

  it('formats every turn, or passes the text of the transition through', async () => {
    const shown = async (externalPromptPassthrough: boolean) => {
      const { trainer } = toyTrainer({
        config: { ...two, externalPromptPassthrough },
        externalTransition: () => ['c', 'd'],
        formatters: ({ prompt, agent, turn }) => `${'gh'[agent]}${'ab'[turn - 1]}${prompt as string}`,
      })
      for await (const { nodes } of trainer.updates())
        return nodes.slice(0, 2).map(({ node }) => node.prompts.map(({ text }) => text))
      return []
    }
    expect(await shown(false)).toEqual([
      ['gaa', 'haa'],
      ['gbc', 'hbd'],
    ])
    expect(await shown(true)).toEqual([
      ['gaa', 'haa'],
      ['c', 'd'],
    ])
  })

  it('check 29: a branch of several turns is trained turn by turn on its own prompt', async () => {
    const { trainer } = toyTrainer({ config: two, externalTransition: echo })
    for await (const { nodes } of trainer.updates()) {
      for (const { node, samples } of nodes) {
        for (const { datum, agent } of samples) {
          const prompt = node.prompts[agent]!.tokens
          const trained = datum.weights!.reduce((sum, weight) => sum + weight, 0)
          expect(datum.tokens.length).toBe(prompt.length + trained - 1)
          expect(datum.tokens.slice(0, prompt.length)).toEqual(prompt)
        }
      }
    }
  })

  it('learns from feedback: a second turn of the toy task ends as good as the first', async () => {
    const { trainer } = toyTrainer({
      agents: [new ToyClient(), new ToyClient()],
      trainDataset: rows(1),
      rewardFunc: lengthRatioReward(),
      externalTransition: ({ prompt }) => [`a${prompt as string}`, `b${prompt as string}`],
      config: {
        numTurns: 2,
        numTrainEpochs: 120,
        numGenerations: 4,
        maxNewTokens: 3,
        agentLearningRate: 0.1,
        earlyTerminationThreshold: 0.9,
      },
    })
    const start = await trainer.evaluate({ rows: rows(1), generations: 64 })
    await trainer.train()
    const end = await trainer.evaluate({ rows: rows(1), generations: 64 })
    for (const turn of [1, 2]) {
      const name = `turn_${turn}/raw_reward_mean`
      expect(end.metrics[name]! - start.metrics[name]!).toBeGreaterThan(0.15)
    }
    expect(end.chains).toHaveLength(64)
    expect(end.chains[0]!.turns).toHaveLength(2)
  })
})

describe('buffers of nodes', () => {
  it('make several steps of a tree, each within one turn, clipped because later nodes are stale', async () => {
    const { trainer, agents } = toyTrainer({
      config: { ...two, rolloutBufferSize: 1 },
      externalTransition: echo,
    })
    const losses: string[] = []
    agents[0]!.onForwardBackward = (_, loss) => losses.push(loss.name)
    for await (const { metrics, nodes } of trainer.updates()) {
      const learnable = nodes.filter(({ groups }) => !groups[0]!.constant).length
      expect(metrics['agent_0/optim_steps']).toBe(learnable)
      expect(losses).toEqual(Array.from({ length: learnable }, () => 'ppo'))
      expect(learnable).toBeGreaterThan(1)
    }
  })

  it('comlrlDefaults carries the reference values and runs', async () => {
    const roomy = () => new ToyClient({ contextLength: 400 })
    const { trainer } = toyTrainer({
      agents: [roomy(), roomy()],
      config: { ...comlrlDefaults, numTrainEpochs: 1 },
      externalTransition: echo,
      rewardFunc: lengthRatioReward(),
    })
    expect(trainer.config).toMatchObject({
      temperature: 0.6,
      topP: 0.6,
      topK: 50,
      numTurns: 2,
      rolloutBufferSize: 2,
      earlyTermination: { threshold: -0.2, scope: 'node', on: 'processed', credit: 'none' },
    })
    const codes: string[] = []
    for await (const { metrics, notices } of trainer.updates()) {
      codes.push(...notices.map(({ code }) => code))
      expect(metrics).not.toHaveProperty(['turn_2/reward_mean'])
      expect(metrics['agent_0/kept_mass']).toBeLessThan(1)
    }
    expect(codes).toContain('filtered_sampling')
    expect(codes).toContain('no_second_turn')
  })
})

describe('credit from plain data', () => {
  it('runs alone on a saved rollout', async () => {
    const folder = join(await temporaryFolder(), 'run')
    const { trainer } = toyTrainer({ config: { ...two, discount: 0.5 }, externalTransition: echo, run: folder })
    await trainer.train()
    const lines = await readLines(join(folder, 'rollouts.jsonl'))
    const records = lines.map((line) => parseRecord(JSON.stringify(line)))
    const roots = fromRecords(records)
    expect(roots).toHaveLength(1)
    const credited = creditTree(roots[0]!, { numTurns: 2, discount: 0.5, credit: 'hold' })
    expect(credited.map(({ jointReturns }) => jointReturns)).toEqual(records.map(({ jointReturns }) => jointReturns))
    expect(credited[2]!.node.responseHistory).toEqual([0, 1].map((agent) => [roots[0]!.completions[agent]![1]!.text]))
    expect(() => parseRecord('{"formatVersion": 7}')).toThrow(/format version 7/)
    expect(() => parseRecord('half a li')).toThrow(/expected a line of rollouts.jsonl/)
    expect(() => fromRecords(records.slice(1))).toThrow(/its parent is not among the records/)
  })

  it('leaves an answer out when nothing behind it counts', () => {
    const leaf = (rewards: (number | null)[], turn: number): JointNode => ({
      rowIndex: 0,
      turn,
      path: [],
      prompts: [{ text: '', chat: false, tokens: new Int32Array(0) }],
      promptHistory: [[]],
      responseHistory: [[]],
      roles: null,
      completions: [
        rewards.map(() => ({
          text: '',
          tokens: new Int32Array(0),
          logprobs: new Float32Array(0),
          keptMass: new Float32Array(0),
          stopReason: 'scripted',
          policyVersion: 0,
        })),
      ],
      answers: rewards.map((reward, k) => ({
        generations: [k],
        rawRewards: [reward],
        rewards: [reward],
        ending: reward === null ? 'left_out' : 'last_turn',
        reason: null,
        child: null,
      })),
    })
    const root = leaf([1, 2], 1)
    for (const answer of root.answers) answer.ending = null
    root.answers[0]!.child = leaf([null, null], 2)
    root.answers[1]!.child = leaf([null, 4], 2)
    const [credited] = creditTree(root, { numTurns: 2, discount: 1, credit: 'hold' })
    expect(credited!.jointReturns).toEqual([[null, 6]])
  })

  it('orders crossed answers with agent 0 slowest', () => {
    expect(jointGenerations(2, 2, 'cross')).toEqual([
      [0, 0],
      [0, 1],
      [1, 0],
      [1, 1],
    ])
    expect(jointGenerations(2, 3, 'cross')[3]).toEqual([0, 1, 1])
    expect(jointGenerations(3, 1, 'cross')).toEqual([[0], [1], [2]])
    expect(jointGenerations(2, 2, 'aligned')).toEqual([
      [0, 0],
      [1, 1],
    ])
  })

  it('sums estimators of the KL over tokens', () => {
    const policy = [-1, -2]
    const reference = [-1.5, -1]
    expect(sequenceKl(policy, reference, 'k1')).toBeCloseTo(0.5 - 1, 12)
    expect(sequenceKl(policy, reference, 'k2')).toBeCloseTo((0.25 + 1) / 2, 12)
    expect(sequenceKl(policy, reference, 'k3')).toBeCloseTo(Math.exp(-0.5) + 0.5 - 1 + Math.E - 1 - 1, 12)
    for (const estimator of ['k1', 'k2', 'k3'] as const) expect(sequenceKl(policy, policy, estimator)).toBe(0)
  })
})

describe('advantages', () => {
  it('check 21: parts that cancel have no spread, whatever each has alone', () => {
    const parts = [
      [1, 2, 3],
      [3, 2, 1],
    ]
    const total = parts[0]!.map((value, k) => value + parts[1]![k]!)
    expect(groupAdvantages(total, { mode: 'mean', normalize: true })).toEqual({ values: [0, 0, 0], constant: true })
  })

  it('rounding noise is no signal', () => {
    const returns = [0.1 + 0.2, 0.3, 0.3]
    expect(groupAdvantages(returns, { mode: 'mean', normalize: true }).constant).toBe(true)
  })

  it('check 24: running baselines of two roles are read before they change', () => {
    const first = updateBaselines(
      {},
      [
        { key: 'agent_0/turn_1', returns: [1, 3] },
        { key: 'agent_1/turn_1', returns: [-2] },
      ],
      { decay: 0.9, initial: 0.5 },
    )
    expect(groupAdvantages([1, 3], { mode: 'rae', normalize: false, runningBaseline: 0.5 }).values).toEqual([0.5, 2.5])
    expect(first['agent_0/turn_1']).toBeCloseTo(0.9 * 0.5 + 0.1 * 2, 12)
    expect(first['agent_1/turn_1']).toBeCloseTo(0.9 * 0.5 + 0.1 * -2, 12)
    const second = updateBaselines(first, [{ key: 'agent_0/turn_1', returns: [null, 4] }], { decay: 0.9, initial: 0.5 })
    expect(second['agent_0/turn_1']).toBeCloseTo(0.9 * 0.65 + 0.1 * 4, 12)
    expect(second['agent_1/turn_1']).toBe(first['agent_1/turn_1'])
  })

  it('check 24: a single sample with normalisation stays finite', () => {
    expect(groupAdvantages([3], { mode: 'rae', normalize: true, runningBaseline: 1 }).values).toEqual([2])
    expect(groupAdvantages([3], { mode: 'none', normalize: true }).values).toEqual([3])
    expect(groupAdvantages([3], { mode: 'mean', normalize: true }).values).toEqual([0])
    expect(groupAdvantages([null, 3], { mode: 'rloo', normalize: true }).values).toEqual([null, 0])
  })

  it('rae reads the baseline of the run before the update', async () => {
    const { trainer } = toyTrainer({
      config: {
        numGenerations: 2,
        advantageMode: 'rae',
        advantageNormalization: false,
        raeInitial: 10,
        raeDecay: 0.5,
        numTrainEpochs: 1,
      },
      rewardFunc: () => [4, 8],
    })
    const seen: (number | null)[][] = []
    for await (const { nodes } of trainer.updates()) seen.push([...nodes[0]!.groups[1]!.advantages])
    expect(seen).toEqual([
      [-6, -2],
      [-4, 0],
      [-3, 1],
    ]) // baselines 10, 8, 7
  })
})
