import { completionReturns } from '../magrpo/credit.js'
import type { EarlyTermination } from '../magrpo/config.js'
import type { JointAnswer, JointNode } from '../magrpo/types.js'

/** The values that one agent's critic gives at one node. */
export interface NodeValues {
  readonly values: Float32Array
  /** Which of them belongs to a joint answer. */
  readonly sequenceOf: (answer: number) => number
}

export interface TargetOptions {
  readonly numTurns: number
  readonly discount: number
  readonly credit: EarlyTermination['credit']
}

const meanOf = (values: readonly number[]): number | null =>
  values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length

/** The value of a place: V, or with `q` the mean of Q over its answers that count. */
export function placeValue(node: JointNode, { values, sequenceOf }: NodeValues, type: 'v' | 'q'): number | null {
  if (type === 'v') return values[0] ?? null
  const counted = node.answers.flatMap(({ ending }, j) => (ending === 'left_out' ? [] : [values[sequenceOf(j)]!]))
  return meanOf(counted)
}

/**
 * One agent's target of each joint answer, [answer]: the reward plus the discounted value of the place that it leads to (one-step
 * temporal difference, Sutton 1988). An answer that ended early earns, with `hold`, its own reward for each turn it did not
 * take. Null: left out.
 *
 * @param childValue the value of the place behind joint answer j; null where it has none.
 */
export function answerTargets(
  node: JointNode,
  agent: number,
  childValue: (answer: number) => number | null,
  { numTurns, discount, credit }: TargetOptions,
): (number | null)[] {
  return node.answers.map((answer, j) => {
    const reward = answer.rewards[agent] ?? null
    if (reward === null || answer.ending === 'left_out') return null
    if (answer.child) {
      const next = childValue(j)
      return next === null ? null : reward + discount * next
    }
    if (answer.ending !== 'terminated' || credit === 'none') return reward
    let turns = 1
    for (let left = numTurns - node.turn, factor = discount; left > 0; left--, factor *= discount) turns += factor
    return reward * turns
  })
}

/** One agent's completions at one node, [k]; null: left out. */
export interface CompletionCredit {
  readonly targets: readonly (number | null)[]
  /** What the critic expected, without looking at the completion itself. */
  readonly expected: readonly (number | null)[]
}

/**
 * From joint answers to completions. What is expected: `v`: V(place); `q`: the mean of Q over the joint answers that do not use
 * the completion, so that no baseline depends on the answer that it judges.
 */
export function completionCredit(
  node: JointNode,
  agent: number,
  targets: readonly (number | null)[],
  own: NodeValues,
  type: 'v' | 'q',
): CompletionCredit {
  const perAgent = node.completions.map(() => [...targets])
  const expected = node.completions[agent]!.map((_, k) => {
    if (type === 'v') return own.values[0] ?? null
    const uses = ({ generations }: JointAnswer) => generations[agent] === k
    const others = node.answers.flatMap((answer, j) => (uses(answer) ? [] : [own.values[own.sequenceOf(j)]!]))
    return meanOf(others)
  })
  return { targets: completionReturns(node, perAgent)[agent]!, expected }
}

const STD_FLOOR = 1e-6

/**
 * Advantages of one agent and turn over an update, centred and divided by their population standard deviation (at least 1e-6);
 * a single one, or equal ones, have no scale and stay as they are. Nulls stay null.
 */
export function normaliseAdvantages(advantages: readonly (number | null)[]): (number | null)[] {
  const counted = advantages.filter((value) => value !== null)
  const mean = meanOf(counted)
  if (mean === null) return [...advantages]
  const variance = counted.reduce((sum, value) => sum + (value - mean) ** 2, 0) / counted.length
  const std = Math.sqrt(variance)
  const spread = counted.length > 1 && std > 1e-9 * Math.max(1, Math.abs(mean))
  if (!spread) return [...advantages]
  return advantages.map((value) => (value === null ? null : (value - mean) / Math.max(std, STD_FLOOR)))
}
