import { ContextOverflowError } from '@selfplay/engine'
import { textOf } from '@selfplay/renderers'
import type { RewardValue } from '@selfplay/rewards'
import { settleAll, withDeadline } from '../deadline.js'
import { RewardError, TransitionError } from '../errors.js'
import type { Samplers, Seat } from './agents.js'
import type { EarlyTermination } from './config.js'
import { judgeNode, type RewardFailures } from './judge.js'
import { describeValue, encodePrompt, formatPrompt, formatterOf, isPrompt } from './prompts.js'
import { answerTexts, shownPrompts, splitRoles } from './roles.js'
import { sampleNodes } from './sampling.js'
import type { JointAnswer, JointNode, Prompt, PromptRow, ShownPrompt, Task, TransitionArgs } from './types.js'
import type { RowAt } from '../dataset.js'

/** Everything that growing a tree needs besides the rows. */
export interface TreeOptions<Row> {
  readonly task: Task<Row>
  readonly seats: readonly Seat[]
  readonly samplers: Samplers
  readonly numTurns: number
  /** Completions of each agent at a node of this turn (from 1). */
  readonly generationsAt: (turn: number) => number
  readonly jointMode: 'aligned' | 'cross'
  readonly earlyTermination: EarlyTermination | null
  readonly externalPromptPassthrough: boolean
  /** Null: each agent's own. */
  readonly temperature: number | null
  readonly seed: number
  readonly maxConcurrentPolicies: number
  readonly rewardTimeoutSeconds: number
  readonly transitionTimeoutSeconds: number
  readonly failures: RewardFailures
  readonly signal: AbortSignal
}

/** Seconds spent in the parts of a rollout. */
export interface TreeTimes {
  sample: number
  reward: number
  transition: number
}

export interface Trees {
  /** One per row, in order. */
  readonly roots: JointNode[]
  readonly times: TreeTimes
}

/**
 * Grows one tree of joint answers per row: sample, judge, and, where a branch goes on, ask the transition and go deeper.
 * All nodes of a level, of all rows, are sampled together.
 */
export async function growTrees<Row extends PromptRow>(
  rows: readonly RowAt<Row>[],
  options: TreeOptions<Row>,
): Promise<Trees> {
  const times: TreeTimes = { sample: 0, reward: 0, transition: 0 }
  const rowOf = new Map(rows.map(({ index, row }) => [index, row]))
  const contexts = await contextLengths(options)
  const roots = rows.map(({ row, index }) => openRoot(row, index, contexts, options))
  let level: JointNode[] = roots
  for (let turn = 1; level.length > 0; turn++) {
    await timed(times, 'sample', () => fillCompletions(level, turn, rowOf, options))
    await timed(times, 'reward', () => judgeLevel(level, rowOf, options))
    for (const node of level) endBranches(node, options)
    const parents = level
    level = await timed(times, 'transition', () => openChildren(parents, rowOf, contexts, options))
  }
  return { roots, times }
}

async function timed<T>(times: TreeTimes, part: keyof TreeTimes, work: () => Promise<T>): Promise<T> {
  const start = performance.now()
  try {
    return await work()
  } finally {
    times[part] += (performance.now() - start) / 1000
  }
}

/** Context length of each seat's model; infinite for scripted ones. */
async function contextLengths<Row>({ seats, samplers }: TreeOptions<Row>): Promise<number[]> {
  const lengths: number[] = []
  for (const { policy } of seats) {
    if (!policy) lengths.push(Infinity)
    else lengths.push(policy.client?.info.contextLength ?? (await samplers.of(policy)).contextLength)
  }
  return lengths
}

function openRoot<Row extends PromptRow>(
  row: Row,
  rowIndex: number,
  contexts: readonly number[],
  options: TreeOptions<Row>,
): JointNode {
  const shown = show(
    options.seats.map(() => row.prompt),
    { row, rowIndex, turn: 1 },
    contexts,
    options,
  )
  const none = shown.texts.map(() => [])
  return openNode({ rowIndex, turn: 1, path: [], shown, promptHistory: none, responseHistory: none })
}

/** What agents are shown, and the same as callbacks see it: per role where one policy speaks for all. */
interface Shown {
  readonly prompts: ShownPrompt[]
  /** Per agent or role. */
  readonly texts: string[]
  readonly byRole: boolean
}

type NodePlace = Pick<JointNode, 'rowIndex' | 'turn' | 'path' | 'promptHistory' | 'responseHistory'>

function openNode({ shown, ...place }: NodePlace & { readonly shown: Shown }): JointNode {
  const roles = shown.byRole ? { prompts: shown.texts, texts: [], failures: 0 } : null
  return { ...place, prompts: shown.prompts, completions: [], roles, answers: [] }
}

/** Formats the prompts of a node, one per agent or role, and encodes what each agent is shown. */
function show<Row extends PromptRow>(
  raw: readonly Prompt[],
  { row, rowIndex, turn }: { readonly row: Row; readonly rowIndex: number; readonly turn: number },
  contexts: readonly number[],
  { seats, task, externalPromptPassthrough }: TreeOptions<Row>,
): Shown {
  const numAgents = task.centralized?.numRoles ?? seats.length
  const formatted = Array.from({ length: numAgents }, (_, agent) => {
    const formatter = turn > 1 && externalPromptPassthrough ? undefined : formatterOf(task.formatters, agent)
    return formatPrompt(formatter, { row, prompt: raw[agent] ?? raw[0]!, agent, numAgents, turn }, rowIndex)
  })
  if (!task.centralized) {
    const prompts = seats.map((seat, agent) =>
      encodePrompt(formatted[agent]!, seat, contexts[agent]!, { rowIndex, turn, agent }),
    )
    return { prompts, texts: prompts.map(({ text }) => text), byRole: false }
  }
  const { buildPrompt } = task.centralized
  const whole = formatPrompt(
    () => buildPrompt({ row, prompts: formatted, turn }),
    { row, prompt: row.prompt, agent: 0, numAgents: 1, turn },
    rowIndex,
  )
  const texts = formatted.map((prompt) =>
    typeof prompt === 'string' ? prompt : prompt.map((message) => textOf(message)).join('\n'),
  )
  const prompts = [encodePrompt(whole, seats[0]!, contexts[0]!, { rowIndex, turn, agent: 0 })]
  return { prompts, texts, byRole: true }
}

async function fillCompletions<Row extends PromptRow>(
  level: readonly JointNode[],
  turn: number,
  rowOf: ReadonlyMap<number, Row>,
  options: TreeOptions<Row>,
): Promise<void> {
  const numGenerations = options.generationsAt(turn)
  const drawn = await sampleNodes(level, {
    ...options,
    numGenerations,
    scriptedTimeoutSeconds: options.transitionTimeoutSeconds,
    rowOf: (node) => rowOf.get(node.rowIndex) as Row,
  })
  level.forEach((node, n) => {
    node.completions = drawn[n]!
    const adapter = options.task.centralized
    if (adapter && node.roles) {
      node.roles = splitRoles(node.roles.prompts, node.completions[0]!, rowOf.get(node.rowIndex) as Row, adapter)
    }
    node.answers = jointGenerations(numGenerations, options.seats.length, options.jointMode).map((generations) => ({
      generations,
      rawRewards: [],
      rewards: [],
      ending: null,
      reason: null,
      child: null,
    }))
  })
}

/**
 * Which completions make up each joint answer, [answer][agent]: aligned k, k, ... or, crossed, all K^n combinations with
 * agent 0 slowest. One agent has nobody to cross with.
 */
export function jointGenerations(K: number, agents: number, mode: 'aligned' | 'cross'): number[][] {
  if (mode === 'aligned' || agents === 1) {
    return Array.from({ length: K }, (_, k) => Array.from({ length: agents }, () => k))
  }
  return Array.from({ length: K ** agents }, (_, j) =>
    Array.from({ length: agents }, (_unused, agent) => Math.floor(j / K ** (agents - 1 - agent)) % K),
  )
}

async function judgeLevel<Row>(
  level: readonly JointNode[],
  rowOf: ReadonlyMap<number, Row>,
  options: TreeOptions<Row>,
): Promise<void> {
  const { task, rewardTimeoutSeconds, signal, failures } = options
  const outcomes = await Promise.allSettled(
    level.map((node) =>
      judgeNode(node, rowOf.get(node.rowIndex) as Row, task, { timeoutSeconds: rewardTimeoutSeconds, signal }),
    ),
  )
  // In node order, whatever settled first, so that a run and its repetition count failures alike.
  level.forEach((node, n) => {
    const outcome = outcomes[n]!
    if (outcome.status === 'fulfilled') {
      const { raw, processed, failed } = outcome.value
      failures.success(failed.size)
      node.answers.forEach((answer, j) => {
        answer.rawRewards = raw.map((list) => list[j] as RewardValue)
        answer.rewards = processed.map((list) => list[j] as RewardValue)
        if (answer.rewards.every((reward) => reward === null)) leaveOut(answer, failed.get(j) ?? UNJUDGED)
      })
      return
    }
    if (!(outcome.reason instanceof RewardError)) throw outcome.reason
    failures.failure(outcome.reason)
    for (const answer of node.answers) {
      answer.rawRewards = options.seats.map(() => null)
      answer.rewards = options.seats.map(() => null)
      leaveOut(answer, outcome.reason.message)
    }
  })
}

/** Why an answer is left out for which the reward function chose null. */
export const UNJUDGED = 'the reward function left it out'

function leaveOut(answer: JointAnswer, reason: string): void {
  answer.ending = 'left_out'
  answer.reason = reason
}

/** Marks the answers of a judged node after which nothing more is asked. */
function endBranches<Row>(node: JointNode, { numTurns, earlyTermination }: TreeOptions<Row>): void {
  for (const answer of node.answers) if (node.turn === numTurns) answer.ending ??= 'last_turn'
  if (!earlyTermination || node.turn === numTurns) return
  const { threshold, scope } = earlyTermination
  const values = node.answers.map((answer) => terminationValue(answer, earlyTermination))
  const nodeValue = mean(values.filter((value) => value !== null))
  node.answers.forEach((answer, j) => {
    const value = scope === 'node' ? nodeValue : values[j]!
    if (answer.ending || value === null || !(value > threshold)) return
    answer.ending = 'terminated'
    const whose = scope === 'node' ? 'mean reward of the node' : 'reward'
    answer.reason = `${whose} ${Number(value.toPrecision(6))} > threshold ${threshold}`
  })
}

/** What the threshold is compared with: the answer's reward, averaged over agents that have rewards of their own. */
export function terminationValue(answer: JointAnswer, { on }: Pick<EarlyTermination, 'on'>): number | null {
  const rewards = on === 'raw' ? answer.rawRewards : answer.rewards
  return mean(rewards.filter((reward) => reward !== null))
}

const mean = (values: readonly number[]): number | null =>
  values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length

async function openChildren<Row extends PromptRow>(
  level: readonly JointNode[],
  rowOf: ReadonlyMap<number, Row>,
  contexts: readonly number[],
  options: TreeOptions<Row>,
): Promise<JointNode[]> {
  const opened = level.flatMap((node) =>
    node.answers.map(async (answer, j) => {
      if (answer.ending) return null
      const row = rowOf.get(node.rowIndex) as Row
      const args = transitionArgs(node, answer, row)
      const prompts = await askTransition(args, node, options)
      const turn = node.turn + 1
      const shown = showOrOverflow(prompts, { row, rowIndex: node.rowIndex, turn }, contexts, options)
      if (shown instanceof ContextOverflowError) {
        leaveOut(answer, `context overflow: ${shown.message}`)
        return null
      }
      const { promptHistory, responseHistory } = args
      answer.child = openNode({
        rowIndex: node.rowIndex,
        turn,
        path: [...node.path, j],
        shown,
        promptHistory,
        responseHistory,
      })
      return answer.child
    }),
  )
  return (await settleAll(opened)).filter((node) => node !== null)
}

function transitionArgs<Row extends PromptRow>(node: JointNode, answer: JointAnswer, row: Row): TransitionArgs<Row> {
  const agentCompletions = answerTexts(node, answer)
  const prompts = shownPrompts(node)
  return {
    prompt: row.prompt as TransitionArgs<Row>['prompt'],
    agentCompletions,
    numAgents: prompts.length,
    turn: node.turn,
    row,
    promptHistory: node.promptHistory.map((texts, agent) => [...texts, prompts[agent]!]),
    responseHistory: node.responseHistory.map((texts, agent) => [...texts, agentCompletions[agent]!]),
  }
}

async function askTransition<Row>(
  args: TransitionArgs<Row>,
  node: JointNode,
  { task, transitionTimeoutSeconds, signal }: TreeOptions<Row>,
): Promise<readonly Prompt[]> {
  const place = { row: node.rowIndex, turn: node.turn }
  const where = `row ${node.rowIndex}, after turn ${node.turn}`
  let prompts: unknown
  try {
    prompts = await withDeadline((inner) => task.externalTransition!(args, { signal: inner }), {
      seconds: transitionTimeoutSeconds,
      signal,
      what: 'externalTransition',
    })
  } catch (cause) {
    if (signal.aborted) throw cause
    const message = cause instanceof Error ? cause.message : String(cause)
    throw new TransitionError(`externalTransition failed at ${where}: ${message}`, place, { cause })
  }
  if (!Array.isArray(prompts) || prompts.length !== args.numAgents) {
    throw new TransitionError(
      `externalTransition must return ${args.numAgents} prompts, one per agent, got ${describeValue(prompts)} at ${where}`,
      { ...place, expected: args.numAgents, got: Array.isArray(prompts) ? prompts.length : null },
    )
  }
  const bad = prompts.findIndex((prompt) => !isPrompt(prompt))
  if (bad >= 0) {
    throw new TransitionError(
      `externalTransition must return text or a list of {role, content} for each agent, got ${describeValue(prompts[bad])} ` +
        `for agent ${bad} at ${where}`,
      { ...place, agent: bad },
    )
  }
  return prompts as Prompt[]
}

/** As {@link show}, but an overflow of the context is returned, not thrown: it ends one branch, not a run. */
function showOrOverflow<Row extends PromptRow>(...args: Parameters<typeof show<Row>>): Shown | ContextOverflowError {
  try {
    return show(...args)
  } catch (error) {
    if (error instanceof ContextOverflowError) return error
    throw error
  }
}
