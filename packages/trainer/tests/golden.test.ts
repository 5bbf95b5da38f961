import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import type { JointRewardFunction } from '@selfplay/rewards'
import { RewardProcessors } from '@selfplay/rewards'
import { groupAdvantages, type Baseline } from '../src/magrpo/advantages.js'
import { Samplers, type Seat } from '../src/magrpo/agents.js'
import { analyseTrees } from '../src/magrpo/analyse.js'
import { NodeBuffer } from '../src/magrpo/buffer.js'
import { comlrlDefaults, resolveConfig, type MAGRPOConfig } from '../src/magrpo/config.js'
import { evaluateRows } from '../src/magrpo/evaluate.js'
import { RewardFailures } from '../src/magrpo/judge.js'
import { penalise } from '../src/magrpo/reference-kl.js'
import { growTrees } from '../src/magrpo/tree.js'
import type { ExternalTransition, PromptRow, TransitionArgs } from '../src/magrpo/types.js'
import { followSignal } from '../src/deadline.js'
import { Random } from '@selfplay/env'

interface RewardTree {
  rewards: number[]
  children?: Record<string, RewardTree>
}
interface GoldenNode {
  path: number[]
  turn: number
  env_step: number
  rewards: number[]
  mean_reward: number
  expanded: boolean
  terminated_early: boolean
  joint_returns: number[]
  mean_return: number
  per_agent: { returns: number[]; advantages: number[] }[]
}
interface Case {
  name: string
  config: {
    num_turns: number
    num_generations: number
    num_agents: number
    advantage_normalization: boolean
    advantage_mode: 'mean' | 'rloo' | 'max' | 'raw'
    joint_mode: string
    early_termination_threshold: number | null
    discount: number
    rollout_buffer_size: number
    train_batch_size: number
  }
  reward_tree: RewardTree
  nodes_in_build_order: GoldenNode[]
  num_transition_calls: number
  first_transition_call: Record<string, unknown> | null
  last_transition_call: Record<string, unknown> | null
  update_groups: { agent: number; turn: number; node_env_steps: number[] }[]
  env_step_total: number
}

const golden = JSON.parse(readFileSync(new URL('../../../fixtures/magrpo/golden.json', import.meta.url), 'utf8')) as {
  cases: Case[]
  reference_kl: {
    returns: number[]
    reference_kls: number[]
    coef: number
    effective_returns: number[]
    advantages_mean_nonorm: number[]
  }
}
const cases = new Map(golden.cases.map((one) => [one.name, one]))
const { signal } = followSignal(new AbortController().signal)

/** Agents whose answers name their place, as in the golden run: `<path>|<agent>|<generation>`. */
function namedSeats(agents: number): Seat[] {
  return Array.from({ length: agents }, (_, index) => ({
    index,
    kind: 'scripted' as const,
    policy: null,
    codec: null,
    renderer: null,
    reply: ({ prompt, turn, agent, generation }) => `${turn === 1 ? '[]' : prompt}|${agent}|${generation}`,
    settings: { maxNewTokens: 1, temperature: 1, topP: 1, topK: null, stop: [], learningRate: 1 },
    stop: [],
    chatStop: [],
  }))
}

const pathOf = (text: string) => JSON.parse(text.split('|')[0]!) as number[]

function rewardsFrom(tree: RewardTree): JointRewardFunction<PromptRow> {
  return ({ completions }) => {
    let node = tree
    for (const j of pathOf(completions[0]![0]!)) node = node.children![String(j)]!
    return node.rewards
  }
}

/** Runs a golden case through the tree, the credit and the advantages. */
async function play({ config, reward_tree }: Case, overrides: MAGRPOConfig = {}) {
  const { num_agents: agents, num_generations: K, num_turns: numTurns, joint_mode, advantage_mode } = config
  const threshold = config.early_termination_threshold
  const resolved = resolveConfig(
    {
      numTurns,
      numGenerations: K,
      discount: config.discount,
      jointMode: joint_mode === 'aligned' ? 'aligned' : 'cross',
      advantageMode: advantage_mode === 'raw' ? 'none' : advantage_mode,
      advantageNormalization: config.advantage_normalization,
      earlyTermination:
        threshold === null || numTurns === 1 ? null : { threshold, scope: 'node', on: 'processed', credit: 'none' },
      ...overrides,
    },
    agents,
  )
  const calls: TransitionArgs<PromptRow>[] = []
  const externalTransition: ExternalTransition<PromptRow> = (args) => {
    calls.push(args)
    const generations = args.agentCompletions.map((text) => Number(text.split('|')[2]))
    const cross = joint_mode !== 'aligned' && agents > 1
    const j = cross ? generations.reduce((sum, g) => sum * K + g, 0) : generations[0]!
    return args.agentCompletions.map((text) => JSON.stringify([...pathOf(text), j]))
  }
  const seats = namedSeats(agents)
  const processor = cases.get('two_turn_scale100_thr_0.9')!.reward_tree === reward_tree
  const { roots } = await growTrees([{ row: { prompt: 'P' }, index: 0, epoch: 0 }], {
    task: {
      rewardFunc: rewardsFrom(reward_tree),
      externalTransition,
      ...(processor && { rewardProcessor: RewardProcessors.scale({ factor: 100 }) }),
    },
    seats,
    samplers: new Samplers(),
    numTurns,
    generationsAt: () => K,
    jointMode: resolved.jointMode,
    earlyTermination: resolved.earlyTermination,
    externalPromptPassthrough: false,
    temperature: null,
    seed: 1,
    maxConcurrentPolicies: 1,
    rewardTimeoutSeconds: 5,
    transitionTimeoutSeconds: 5,
    failures: new RewardFailures(1),
    signal,
  })
  const options = { config: resolved, seats, references: seats.map(() => null), baselines: {}, envStep: 0, signal }
  return { nodes: (await analyseTrees(roots, options)).nodes, calls, resolved }
}

function expectClose(got: readonly (number | null)[], want: readonly number[], scale = 1) {
  expect(got).toHaveLength(want.length)
  want.forEach((value, i) => expect(Math.abs(got[i]! - value / scale)).toBeLessThan(1e-5))
}

/** Names of cases whose advantages the reference gets right. */
const EXACT = [
  'single_turn_mean_norm',
  'single_turn_mean_nonorm',
  'single_turn_rloo_nonorm',
  'single_turn_max_nonorm',
  'single_turn_raw_nonorm',
  'single_turn_all_equal',
  'single_turn_K2',
  'single_agent_GRPO',
  'cross_K2_A2_norm',
  'two_turn_aligned_thr_none_norm',
  'two_turn_aligned_thr_none_nonorm',
  'two_turn_aligned_thr_0.9_norm',
  'two_turn_aligned_thr_0.9_nonorm',
  'two_turn_aligned_thr_-0.2_norm',
  'two_turn_aligned_thr_-0.2_nonorm',
  'two_turn_negative_thr_-0.2',
  'two_turn_equal_to_threshold',
  'two_turn_thr_0.9_group_level',
  'two_turn_thr_0.9_terminated',
  'two_turn_scale100_thr_0.9',
  'two_turn_cross_K2_norm',
  'three_turn_partial_termination',
  'buffer_1_tb_None',
  'buffer_2_tb_None',
  'buffer_3_tb_1',
  'buffer_16_tb_None',
  'buffer_16_tb_2',
]
const MEAN_INSTEAD_OF_SUM = [
  'cross_K2_A2_nonorm',
  'cross_K3_A2_nonorm',
  'cross_K2_A3_nonorm',
  'two_turn_cross_K2_nonorm',
]
const FAULTS = [
  'single_turn_rloo_norm',
  'single_turn_max_norm',
  'single_turn_raw_norm',
  'two_turn_discount_ignored',
  'crossed_alias_bug',
]

describe('golden numbers of the reference', () => {
  it('are all accounted for', () => {
    expect([...cases.keys()].sort()).toEqual([...EXACT, ...MEAN_INSTEAD_OF_SUM, ...FAULTS].sort())
  })

  it.each([...EXACT, ...MEAN_INSTEAD_OF_SUM])('%s', async (name) => {
    const one = cases.get(name)!
    const { nodes, calls } = await play(one)
    const { num_generations: K, num_agents: agents, joint_mode, advantage_normalization } = one.config
    // Completions of crossed answers: ours is the mean over the K^(n-1) joint answers that use one, the reference's the sum.
    const crossed = joint_mode === 'cross' && agents > 1 ? K ** (agents - 1) : 1
    expect(nodes.map(({ node }) => node.path)).toEqual(one.nodes_in_build_order.map(({ path }) => path))
    one.nodes_in_build_order.forEach((want, n) => {
      const got = nodes[n]!
      expect(got.node.turn).toBe(want.turn)
      expect(got.envStep).toBe(want.env_step)
      expectClose(
        got.node.answers.map(({ rewards }) => rewards[0]!),
        want.rewards,
      )
      expect(got.node.answers.some(({ child }) => child !== null)).toBe(want.expanded)
      expect(got.node.answers.every(({ ending }) => ending === 'terminated')).toBe(want.terminated_early)
      want.per_agent.forEach(({ returns, advantages }, agent) => {
        expectClose(got.jointReturns[agent]!, want.joint_returns)
        expectClose(got.groups[agent]!.returns, returns, crossed)
        expectClose(got.groups[agent]!.advantages, advantages, advantage_normalization ? 1 : crossed)
      })
      expect(got.meanReturn).toBeCloseTo(want.mean_return, 5)
      expect(got.meanReward).toBeCloseTo(want.mean_reward, 5)
    })
    expect(calls).toHaveLength(one.num_transition_calls)
    expectCall(calls[0], one.first_transition_call)
    const last = [...calls].sort((a, b) => a.turn - b.turn).at(-1)
    if (one.config.num_turns === 2) expectCall(last, one.last_transition_call)
  })

  function expectCall(got: TransitionArgs<PromptRow> | undefined, want: Record<string, unknown> | null) {
    if (!want) return
    expect(got?.prompt).toBe(want['prompt'])
    expect(got?.agentCompletions).toEqual(want['agent_completions'])
    expect(got?.numAgents).toBe(want['num_agents'])
    expect(got?.promptHistory).toEqual(want['prompt_history_per_agent'])
    expect(got?.responseHistory).toEqual(want['response_history_per_agent'])
  }

  it.each([...cases.keys()].filter((name) => name.startsWith('buffer_')))(
    '%s drains in the same order',
    async (name) => {
      const one = cases.get(name)!
      const { nodes } = await play(one)
      const { rollout_buffer_size: size, train_batch_size: batch, num_agents: agents } = one.config
      const random = new Random(5)
      const seen: { agent: number; turn: number; node_env_steps: number[] }[] = []
      const buffers = Array.from({ length: agents }, () => new NodeBuffer(size, batch))
      const note = (agent: number, groups: ReturnType<NodeBuffer['drain']>) => {
        for (const { turn, nodes: drained, chunks } of groups) {
          seen.push({ agent, turn: turn - 1, node_env_steps: drained.map(({ envStep }) => envStep) })
          expect(
            chunks
              .flat()
              .map(({ envStep }) => envStep)
              .sort((a, b) => a - b),
          ).toEqual(seen.at(-1)!.node_env_steps)
          for (const chunk of chunks) expect(chunk.length).toBeLessThanOrEqual(batch)
        }
      }
      for (const { node, envStep } of nodes) {
        buffers.forEach((buffer, agent) => note(agent, buffer.push({ envStep, turn: node.turn, samples: [] }, random)))
      }
      buffers.forEach((buffer, agent) => note(agent, buffer.drain(random)))
      expect(seen).toEqual(one.update_groups)
    },
  )

  it('has the KL penalty on returns', () => {
    const { returns, reference_kls, coef, effective_returns, advantages_mean_nonorm } = golden.reference_kl
    const effective = penalise(returns, reference_kls, coef)
    const { values } = groupAdvantages(effective, { mode: 'mean', normalize: false })
    effective_returns.forEach((value, k) => expect(effective[k]).toBeCloseTo(value, 5))
    advantages_mean_nonorm.forEach((value, k) => expect(values[k]).toBeCloseTo(value, 5))
  })

  it('evaluates without ending early, by undiscounted sums of what is left', async () => {
    const { metrics, chains } = await evaluateRows(
      [{ prompt: 'P' }, { prompt: 'Q' }, { prompt: 'R' }],
      {
        config: resolveConfig({ ...comlrlDefaults }, 2),
        table: { seats: namedSeats(2), policies: [] },
        task: {
          rewardFunc: ({ turn, completions }) => completions[0]!.map(() => (turn === 1 ? 0.3 : 0.7)),
          externalTransition: ({ numAgents }) => Array.from({ length: numAgents }, () => '[0]'),
        },
        samplers: new Samplers(),
      },
      { generations: 1, temperature: null, seed: 1, failures: new RewardFailures(1), signal },
    )
    expect(chains).toHaveLength(3)
    expect(metrics['turn_1/reward_mean']).toBeCloseTo(0.3, 12)
    expect(metrics['turn_2/reward_mean']).toBeCloseTo(0.7, 12)
    expect(metrics['turn_2/expected_return']).toBeCloseTo(0.7, 12)
    expect(metrics['turn_1/expected_return']).toBeCloseTo(1, 12)
  })
})

describe('what the reference gets wrong', () => {
  // Returns [1, 2, 3, 6]: mean 3, population standard deviation sqrt(3.5) = 1.870829.
  it.each([
    ['single_turn_rloo_norm', 'rloo', [-8 / 3, -4 / 3, 0, 4]],
    ['single_turn_max_norm', 'max', [-5, -4, -3, 0]],
    ['single_turn_raw_norm', 'none', [1, 2, 3, 6]],
  ] as [string, Baseline, number[]][])('%s: its baseline survives normalisation', async (name, mode, unscaled) => {
    const { nodes, resolved } = await play(cases.get(name)!)
    expect(resolved.advantageMode).toBe(mode)
    const { advantages } = nodes[0]!.groups[0]!
    expectClose(
      advantages,
      unscaled.map((value) => value / Math.sqrt(3.5)),
    )
    const coincident = cases.get(name)!.nodes_in_build_order[0]!.per_agent[0]!.advantages
    expect(Math.max(...advantages.map((value, k) => Math.abs(value! - coincident[k]!)))).toBeGreaterThan(0.1)
  })

  it('two_turn_discount_ignored: the discount counts', async () => {
    const one = cases.get('two_turn_discount_ignored')!
    const { nodes } = await play(one)
    // r + 0.5 * mean of the child: 0.1 + 0.25, 0.5 + 0.25, 1 + 0.45, 0.2 + 0.075.
    expectClose(nodes[0]!.jointReturns[0]!, [0.35, 0.75, 1.45, 0.275])
    expect(nodes[0]!.meanReturn).not.toBeCloseTo(one.nodes_in_build_order[0]!.mean_return, 3)
  })

  it('crossed_alias_bug: each completion gets the mean of the answers that use it', async () => {
    const one = cases.get('crossed_alias_bug')!
    const { nodes } = await play(one)
    // Joint returns [[0, 1], [2, 5]], agent 0 slowest.
    expectClose(nodes[0]!.groups[0]!.returns, [0.5, 3.5])
    expectClose(nodes[0]!.groups[1]!.returns, [1, 3])
    expectClose(nodes[0]!.groups[0]!.advantages, [-1, 1])
    expect(one.nodes_in_build_order[0]!.per_agent[0]!.advantages[1]).not.toBeCloseTo(1, 3)
  })

  it('ends branches one by one and lets their answers stand', async () => {
    const children = Object.fromEntries(['1', '2', '3'].map((j) => [j, { rewards: [0.9, 0.9, 0.9, 0.9] }]))
    const one = {
      ...cases.get('two_turn_aligned_thr_0.9_nonorm')!,
      reward_tree: { rewards: [1, 0.85, 0.5, 0.3], children },
    }
    const hold = await play(one, { earlyTermination: { threshold: 0.9 } })
    expectClose(hold.nodes[0]!.jointReturns[0]!, [2, 1.75, 1.4, 1.2])
    expect(hold.calls).toHaveLength(3)
    const none = await play(one, { earlyTermination: { threshold: 0.9, credit: 'none' } })
    expectClose(none.nodes[0]!.jointReturns[0]!, [1, 1.75, 1.4, 1.2])
    const best = none.nodes[0]!.groups[0]!.advantages
    expect(best[0]).toBeLessThan(best[3]!) // the best answer is pushed down below the worst
    expect(Math.max(...hold.nodes[0]!.groups[0]!.advantages.map(Number))).toBe(hold.nodes[0]!.groups[0]!.advantages[0])
  })
})
