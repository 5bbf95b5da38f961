import type { JointRewards, RewardValue } from '@selfplay/rewards'
import { withDeadline } from '../deadline.js'
import { DeadlineError, RewardError } from '../errors.js'
import { describeValue } from './prompts.js'
import { answerTexts, shownPrompts } from './roles.js'
import type { JointNode, Task } from './types.js'

/** The rewards of a node, [agent][answer]; null: left out. */
export interface NodeRewards {
  readonly raw: RewardValue[][]
  readonly processed: RewardValue[][]
  /** Why single answers could not be judged, by their index. */
  readonly failed: ReadonlyMap<number, string>
}

export interface JudgeOptions {
  readonly timeoutSeconds: number
  readonly signal: AbortSignal
}

/**
 * Calls the reward function, exactly once, with all joint answers of a node, and checks what it returns.
 *
 * @throws RewardError: it threw (`cause` is what), did not settle, returned a wrong number of values, or one that is neither
 *   a finite number nor null; the same for the processor. The signal's reason when aborted.
 */
export async function judgeNode<Row>(
  node: JointNode,
  row: Row,
  task: Pick<Task<Row>, 'rewardFunc' | 'rewardProcessor'>,
  { timeoutSeconds, signal }: JudgeOptions,
): Promise<NodeRewards> {
  const place = { row: node.rowIndex, turn: node.turn, path: [...node.path] }
  const texts = node.answers.map((answer) => answerTexts(node, answer))
  const args = {
    completions: shownPrompts(node).map((_, agent) => texts.map((one) => one[agent]!)),
    prompts: shownPrompts(node),
    row,
    turn: node.turn,
    history: { prompts: node.promptHistory, responses: node.responseHistory },
  }
  const failed = new Map<number, string>()
  const onFailure = (answer: number, error: unknown) => {
    failed.set(answer, `rewardFunc threw: ${String(error)} (${placeText(node)})`)
  }
  let returned: JointRewards
  try {
    returned = await withDeadline((inner) => task.rewardFunc(args, { signal: inner, onFailure }), {
      seconds: timeoutSeconds,
      signal,
      what: 'rewardFunc',
    })
  } catch (cause) {
    if (signal.aborted) throw cause
    const failure = cause instanceof DeadlineError ? 'timeout' : 'threw'
    const message = cause instanceof DeadlineError ? cause.message : `rewardFunc threw: ${String(cause)}`
    throw new RewardError(failure, `${message} (${placeText(node)})`, place, { cause })
  }
  const raw = readRewards(returned, node)
  return { raw, processed: process(raw, task.rewardProcessor, node), failed }
}

/** [agent][answer] of whatever a reward function may return; a shared list is repeated for each agent. */
export function readRewards(returned: unknown, node: JointNode): RewardValue[][] {
  const agents = node.prompts.length
  const perAgent = isPerAgent(returned) ? returned.perAgent : undefined
  const lists: unknown = perAgent ?? Array.from({ length: agents }, () => returned)
  if (!Array.isArray(lists) || lists.length !== agents) {
    throw new RewardError(
      'wrong_length',
      `rewardFunc must return one list per agent (${agents}) in perAgent, got ${describeValue(lists)} (${placeText(node)})`,
      { expected: agents, got: Array.isArray(lists) ? lists.length : null },
    )
  }
  return lists.map((list: unknown, agent) => readList(list, perAgent ? agent : null, node))
}

const isPerAgent = (value: unknown): value is { perAgent: unknown } =>
  typeof value === 'object' && value !== null && 'perAgent' in value

function readList(list: unknown, agent: number | null, node: JointNode): RewardValue[] {
  const expected = node.answers.length
  const which = agent === null ? '' : ` for agent ${agent}`
  if (!Array.isArray(list) || list.length !== expected) {
    const hint =
      agent === null && (typeof list === 'number' || list === null)
        ? ': wrap a function of one joint answer as perAnswer(rewardFunc)'
        : ''
    throw new RewardError(
      'wrong_length',
      `rewardFunc must return ${expected} rewards${which}, one per joint answer, got ${describeValue(list)} (${placeText(node)})${hint}`,
      { expected, got: Array.isArray(list) ? list.length : null, ...(agent !== null && { agent }) },
    )
  }
  return Array.from(list, (value: unknown, answer) => {
    if (value === null || (typeof value === 'number' && Number.isFinite(value))) return value
    const got = isPerAgent(value) || Array.isArray(value) ? 'rewards per agent' : describeValue(value)
    const shape =
      got === 'rewards per agent'
        ? '. Rewards per agent are one object for the whole node, { perAgent: [[a0, a1, ...], [b0, b1, ...]] }: a list per agent with a ' +
          'reward per joint answer; perAnswer makes it of a function that returns one reward per agent'
        : ''
    throw new RewardError(
      'not_a_number',
      `rewardFunc returned ${got}${which} for joint answer ${answer}: expected a finite number, ` +
        `or null to leave it out (${placeText(node)})${shape}`,
      { answer, got: describeValue(value), ...(agent !== null && { agent }) },
    )
  })
}

function process(
  raw: readonly RewardValue[][],
  processor: ((reward: number) => number) | undefined,
  node: JointNode,
): RewardValue[][] {
  if (!processor) return raw.map((list) => [...list])
  return raw.map((list) =>
    list.map((value, answer) => {
      if (value === null) return null
      let processed: unknown
      try {
        processed = processor(value)
      } catch (cause) {
        throw new RewardError('threw', `rewardProcessor threw for ${value}: ${String(cause)}`, { answer }, { cause })
      }
      if (typeof processed === 'number' && Number.isFinite(processed)) return processed
      throw new RewardError(
        'not_a_number',
        `rewardProcessor made ${describeValue(processed)} of ${value}: expected a finite number (${placeText(node)})`,
        { answer, reward: value, got: describeValue(processed) },
      )
    }),
  )
}

const placeText = ({ rowIndex, turn, path }: JointNode) =>
  `row ${rowIndex}, turn ${turn}${path.length > 0 ? `, branch ${path.join('.')}` : ''}`

/** Plain data, part of a checkpoint. */
export type FailureCounts = Pick<RewardFailures, 'succeeded' | 'consecutive' | 'total' | 'first'>

/** Decides what a failed reward call does to a run; its numbers are part of a checkpoint. */
export class RewardFailures {
  /** Calls that worked. */
  succeeded: number
  /** Calls since the last of them that failed. */
  consecutive: number
  /** Failures in all: calls, and single answers of calls that worked. */
  total: number
  /** What the first of the consecutive ones said. */
  first: string | null
  private readonly limit: number

  constructor(limit: number, counts: FailureCounts = { succeeded: 0, consecutive: 0, total: 0, first: null }) {
    this.limit = limit
    this.succeeded = counts.succeeded
    this.consecutive = counts.consecutive
    this.total = counts.total
    this.first = counts.first
  }

  /** Counts a call that worked, but for `failedAnswers` of its joint answers. */
  success(failedAnswers = 0): void {
    this.succeeded++
    this.total += failedAnswers
    this.consecutive = 0
    this.first = null
  }

  /**
   * Counts a failure that the run may survive; the node's answers are then left out.
   *
   * @throws RewardError: the failure itself when it is a wrong return value or no call has worked yet (a bug, not an
   *   outage), or one that names the number of failures in a row, and what the first one said.
   */
  failure(error: RewardError): void {
    this.total++
    this.consecutive++
    this.first ??= error.message
    const bug = error.failure === 'wrong_length' || error.failure === 'not_a_number' || this.succeeded === 0
    if (bug) throw error
    if (this.consecutive >= this.limit) {
      throw new RewardError(
        error.failure,
        `${this.consecutive} reward calls in a row have failed (maxConsecutiveRewardFailures ${this.limit}); the first: ` +
          this.first,
        { consecutive: this.consecutive },
        { cause: error },
      )
    }
  }
}
