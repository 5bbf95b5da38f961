/** What a joint reward function is given: one node of a rollout, with all of its joint answers. */
export interface JointRewardArgs<Row = unknown> {
  /** Texts, [agent][k]: joint answer k consists of `completions[0][k]`, `completions[1][k]`, ... */
  readonly completions: readonly (readonly string[])[]
  /** The prompt that each agent saw at this node, [agent]. */
  readonly prompts: readonly string[]
  /** The row of the data set. */
  readonly row: Row
  /** The turn, from 1. */
  readonly turn: number
  /** What came before this turn, oldest first: `prompts[agent][turn]` and `responses[agent][turn]`. Empty lists at turn 1. */
  readonly history: JointHistory
}

/** The earlier turns of one branch. */
export interface JointHistory {
  /** [agent][turn], the text that was shown. */
  readonly prompts: readonly (readonly string[])[]
  /** [agent][turn]. */
  readonly responses: readonly (readonly string[])[]
}

/** A reward, or null for "leave this answer out of the group". */
export type RewardValue = number | null

/** One reward per joint answer, shared by all agents, or one list per agent. */
export type JointRewards = readonly RewardValue[] | { readonly perAgent: readonly (readonly RewardValue[])[] }

/** What a joint reward function is given beside its node. */
export interface JointRewardOptions {
  readonly signal: AbortSignal
  /**
   * Tells why a joint answer is left out: its index and what was thrown. The trainer counts it and gives notice; the answer's
   * reward must still be null.
   */
  readonly onFailure?: (answer: number, error: unknown) => void
}

/** Called once per node with all of its joint answers. */
export type JointRewardFunction<Row = unknown> = (
  args: JointRewardArgs<Row>,
  options: JointRewardOptions,
) => JointRewards | Promise<JointRewards>

/** What a reward function of one joint answer is given. */
export interface SingleRewardArgs<Row = unknown> extends Omit<JointRewardArgs<Row>, 'completions'> {
  /** The joint answer: one text per agent. */
  readonly completions: readonly string[]
  /** Which joint answer of the node, from 0. */
  readonly index: number
}

/**
 * Makes a joint reward function of a function that judges one joint answer.
 *
 * @param judge gets one text per agent and returns the shared reward, one reward per agent, or null. All answers of a node
 *   are judged at once when it is async. All results of a node must be of the same kind: shared, or per agent. An answer for
 *   which it throws is left out (null), and `onFailure` is told why; when it throws for all of them, the call fails with the first error.
 */
export function perAnswer<Row = unknown>(
  judge: (
    args: SingleRewardArgs<Row>,
    options: { readonly signal: AbortSignal },
  ) => RewardValue | readonly RewardValue[] | Promise<RewardValue | readonly RewardValue[]>,
): JointRewardFunction<Row> {
  return async ({ completions, ...rest }, options) => {
    const count = completions[0]?.length ?? 0
    const settled = await Promise.allSettled(
      Array.from({ length: count }, async (_, index) =>
        judge({ ...rest, completions: completions.map((texts) => texts[index] ?? ''), index }, options),
      ),
    )
    options.signal.throwIfAborted()
    const failed = settled.flatMap((one, index) => (one.status === 'rejected' ? [{ index, error: one.reason }] : []))
    if (count > 0 && failed.length === count) throw failed[0]!.error
    for (const { index, error } of failed) options.onFailure?.(index, error)
    const results = settled.map((one) => (one.status === 'fulfilled' ? one.value : null))
    if (!results.some((result) => Array.isArray(result))) return results as RewardValue[]
    return {
      perAgent: completions.map((_, agent) =>
        results.map((result) => {
          if (result === null) return null
          // undefined where the judge returned too few values or mixed the kinds: the trainer's check names it
          return (Array.isArray(result) ? result[agent] : undefined) as RewardValue
        }),
      ),
    }
  }
}
