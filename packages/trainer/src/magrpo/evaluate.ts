import type { RewardValue } from '@selfplay/rewards'
import { policiesAtOnce, type Samplers, type Table } from './agents.js'
import type { ResolvedConfig } from './config.js'
import { creditTree } from './credit.js'
import type { RewardFailures } from './judge.js'
import { meanOf } from './metrics.js'
import { answerTexts, shownPrompts } from './roles.js'
import { growTrees } from './tree.js'
import type { Completion, JointNode, PromptRow, Task } from './types.js'

/** One joint answer followed through all turns. */
export interface EvaluationChain {
  /** Index within the evaluated rows. */
  readonly rowIndex: number
  readonly turns: readonly {
    /** [agent], or [role] where one policy speaks for all. */
    readonly prompts: readonly string[]
    /** The same. */
    readonly texts: readonly string[]
    /** [agent]. */
    readonly completions: readonly Completion[]
    /** [agent]; null: left out. */
    readonly rawRewards: readonly RewardValue[]
    readonly rewards: readonly RewardValue[]
  }[]
}

export interface Evaluation {
  /** `turn_k/reward_mean`, `turn_k/raw_reward_mean`, `turn_k/expected_return`, `agent_i/...`; with `eval/` in front in files. */
  readonly metrics: Readonly<Record<string, number>>
  readonly chains: readonly EvaluationChain[]
}

export interface EvaluateOptions {
  /** Joint answers per row. */
  readonly generations: number
  /** Null: the agents' own. */
  readonly temperature: number | null
  readonly seed: number
  /** Counts reward calls that fail; what they judge is left out. */
  readonly failures: RewardFailures
  readonly signal: AbortSignal
}

/**
 * Lets the agents answer each row `generations` times and follows every joint answer through all turns. Nothing ends early,
 * and nothing is trained.
 */
export async function evaluateRows<Row extends PromptRow>(
  rows: readonly Row[],
  context: {
    readonly config: ResolvedConfig
    readonly table: Table
    readonly task: Task<Row>
    readonly samplers: Samplers
  },
  options: EvaluateOptions,
): Promise<Evaluation> {
  const { config, table, task, samplers } = context
  const { roots } = await growTrees(
    rows.map((row, index) => ({ row, index, epoch: 0 })),
    {
      task,
      seats: table.seats,
      samplers,
      numTurns: config.numTurns,
      generationsAt: (turn) => (turn === 1 ? options.generations : 1),
      jointMode: 'aligned',
      earlyTermination: null,
      externalPromptPassthrough: config.externalPromptPassthrough,
      temperature: options.temperature,
      seed: options.seed,
      maxConcurrentPolicies: policiesAtOnce(config, table.seats),
      rewardTimeoutSeconds: config.rewardTimeoutSeconds,
      transitionTimeoutSeconds: config.transitionTimeoutSeconds,
      failures: options.failures,
      signal: options.signal,
    },
  )
  const chains = roots.flatMap((root) => root.answers.map((_, j) => followChain(root, j)))
  return { metrics: evaluationMetrics(roots, chains, config, table.seats.length), chains }
}

function followChain(root: JointNode, first: number): EvaluationChain {
  const turns: EvaluationChain['turns'][number][] = []
  let node: JointNode | null = root
  for (let j = first; node; j = 0) {
    const answer: JointNode['answers'][number] = node.answers[j]!
    const { completions } = node
    turns.push({
      prompts: shownPrompts(node),
      texts: answerTexts(node, answer),
      completions: answer.generations.map((k, agent) => completions[agent]![k]!),
      rawRewards: answer.rawRewards,
      rewards: answer.rewards,
    })
    node = answer.child
  }
  return { rowIndex: root.rowIndex, turns }
}

function evaluationMetrics(
  roots: readonly JointNode[],
  chains: readonly EvaluationChain[],
  { numTurns, discount }: ResolvedConfig,
  agents: number,
): Record<string, number> {
  const metrics: Record<string, number> = {}
  const put = (name: string, value: number | undefined) => {
    if (value !== undefined) metrics[name] = value
  }
  const credited = roots.flatMap((root) => creditTree(root, { numTurns, discount, credit: 'none' }))
  for (let turn = 1; turn <= numTurns; turn++) {
    const played = chains.flatMap(({ turns }) => turns[turn - 1] ?? [])
    const returns = credited.filter(({ node }) => node.turn === turn).map(({ jointReturns }) => jointReturns)
    put(`turn_${turn}/reward_mean`, meanOf(played.flatMap(({ rewards }) => rewards)))
    put(`turn_${turn}/raw_reward_mean`, meanOf(played.flatMap(({ rawRewards }) => rawRewards)))
    put(`turn_${turn}/expected_return`, meanOf(returns.flatMap((lists) => lists.flat())))
    for (let agent = 0; agent < agents; agent++) {
      put(`agent_${agent}/turn_${turn}/reward_mean`, meanOf(played.map(({ rewards }) => rewards[agent] ?? null)))
      put(
        `agent_${agent}/turn_${turn}/length`,
        meanOf(played.map(({ completions }) => completions[agent]!.tokens.length)),
      )
    }
  }
  return metrics
}
