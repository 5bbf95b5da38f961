import type { EarlyTermination } from './config.js'
import type { JointAnswer, JointNode } from './types.js'

export interface CreditOptions {
  readonly numTurns: number
  readonly discount: number
  /** What ended branches earn for the turns that they did not take. */
  readonly credit: EarlyTermination['credit']
}

/** A node with what its answers are worth; null: left out. */
export interface CreditedNode {
  readonly node: JointNode
  /** Joint answers made in this tree and the ones before it, this node's included, in the order of a depth-first walk. */
  readonly envStep: number
  /** Return of each joint answer, [agent][answer]. */
  readonly jointReturns: (number | null)[][]
  /** Return of each completion, [agent][k]: the mean over the joint answers that use it. */
  readonly returns: (number | null)[][]
  /** Of the joint answers that count, over agents. Null when none does. */
  readonly meanReturn: number | null
  /** The same of the processed rewards. */
  readonly meanReward: number | null
}

const meanOf = (values: readonly (number | null)[]): number | null => {
  const counted = values.filter((value) => value !== null)
  return counted.length === 0 ? null : counted.reduce((sum, value) => sum + value, 0) / counted.length
}

/**
 * Credits a whole tree: the nodes in depth-first order, root first, answers in order.
 *
 * R_j = r_j + discount * mean of the child's returns. An answer that ended early earns, with `hold`, its own reward again for
 * each turn it did not take: r_j * (1 + discount + ... + discount^(numTurns - turn)). An answer whose child has nothing that
 * counts is left out too: its future is unknown, not 0.
 *
 * @param envStep joint answers made before this tree.
 */
export function creditTree(root: JointNode, options: CreditOptions, envStep = 0): CreditedNode[] {
  const walked: CreditedNode[] = []
  const visit = (node: JointNode, before: number): { returns: (number | null)[][]; envStep: number } => {
    const place = walked.length
    walked.push(undefined as unknown as CreditedNode) // the node's own place, filled below: it comes before its children
    let at = before + node.answers.length
    const own = at
    const future = node.answers.map(({ child }) => {
      if (!child) return null
      const visited = visit(child, at)
      at = visited.envStep
      return visited.returns
    })
    const jointReturns = node.prompts.map((_, agent) =>
      node.answers.map((answer, j) => answerReturn(answer, agent, node.turn, future[j]?.[agent] ?? null, options)),
    )
    walked[place] = {
      node,
      envStep: own,
      jointReturns,
      returns: completionReturns(node, jointReturns),
      meanReturn: meanOf(jointReturns.flat()),
      meanReward: meanOf(node.answers.flatMap(({ rewards }) => rewards)),
    }
    return { returns: jointReturns, envStep: at }
  }
  visit(root, envStep)
  return walked
}

function answerReturn(
  answer: JointAnswer,
  agent: number,
  turn: number,
  childReturns: readonly (number | null)[] | null,
  { numTurns, discount, credit }: CreditOptions,
): number | null {
  const reward = answer.rewards[agent] ?? null
  if (reward === null || answer.ending === 'left_out') return null
  if (childReturns) {
    const next = meanOf(childReturns)
    return next === null ? null : reward + discount * next
  }
  if (answer.ending !== 'terminated' || credit === 'none') return reward
  let turns = 1
  for (let left = numTurns - turn, factor = discount; left > 0; left--, factor *= discount) turns += factor
  return reward * turns
}

/** Mean over the joint answers that use a completion, [agent][k]: its scale does not grow with the number of partners. */
export function completionReturns(node: JointNode, jointReturns: readonly (readonly (number | null)[])[]) {
  return node.completions.map((completions, agent) => {
    const byCompletion: (number | null)[][] = completions.map(() => [])
    node.answers.forEach(({ generations }, j) => byCompletion[generations[agent]!]!.push(jointReturns[agent]![j]!))
    return byCompletion.map((list) => meanOf(list))
  })
}
