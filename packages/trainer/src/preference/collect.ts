import type { SamplingClient } from '@selfplay/engine'
import { settleAll } from '../deadline.js'
import { DatasetError } from '../errors.js'
import { deriveSeed } from '@selfplay/env'
import { policiesAtOnce, type Samplers, type Seat } from '../magrpo/agents.js'
import type { ResolvedConfig } from '../magrpo/config.js'
import type { RewardFailures } from '../magrpo/judge.js'
import { answerTexts } from '../magrpo/roles.js'
import { growTrees } from '../magrpo/tree.js'
import type { JointNode, PromptRow, Task } from '../magrpo/types.js'
import type { PreferenceSettings } from './config.js'
import { selectPairs, type PairSide, type PreferencePair } from './pairs.js'

export interface CollectOptions<Row> {
  readonly task: Pick<Task<Row>, 'rewardFunc' | 'rewardProcessor' | 'formatters'>
  readonly seats: readonly Seat[]
  readonly samplers: Samplers
  readonly config: ResolvedConfig
  readonly preference: PreferenceSettings
  /** Policies that log-ratios are taken to, [agent]; null: the weights that sample. */
  readonly references: readonly (SamplingClient | null)[]
  readonly failures: RewardFailures
  readonly signal: AbortSignal
}

/** What was sampled and what became of it. */
export interface Collected {
  readonly pairs: readonly PreferencePair[]
  /** Joint answers. */
  readonly candidates: number
  /** Rows without any pair: all their rewards are equal. */
  readonly constantRows: number
}

/**
 * Samples candidates for every row from the policies as they are now, judges them, and keeps pairs. Row by row, so that only
 * one row's candidates are held.
 *
 * @throws DatasetError when no row has a pair: there is nothing to prefer.
 */
export async function collectPairs<Row extends PromptRow>(
  rows: readonly Row[],
  options: CollectOptions<Row>,
): Promise<Collected> {
  const pairs: PreferencePair[] = []
  let [candidates, constantRows] = [0, 0]
  const seen = { lowest: Infinity, highest: -Infinity }
  for (const [index, row] of rows.entries()) {
    options.signal.throwIfAborted()
    const node = await sampleRow(row, index, options)
    candidates += node.answers.length
    const rewards = node.answers.map(({ rewards: own }) => meanOf(own))
    for (const reward of rewards) {
      if (reward === null) continue
      seen.lowest = Math.min(seen.lowest, reward)
      seen.highest = Math.max(seen.highest, reward)
    }
    const chosen = selectPairs(rewards, options.preference, deriveSeed(options.config.seed, 'pairs', index))
    if (chosen.length === 0) constantRows++
    const sides = await sidesOf(node, [...new Set(chosen.flatMap(({ winner, loser }) => [winner, loser]))], options)
    for (const { winner, loser } of chosen) {
      pairs.push({
        rowIndex: index,
        winner: sides.get(winner)!,
        loser: sides.get(loser)!,
        winnerReward: rewards[winner]!,
        loserReward: rewards[loser]!,
      })
    }
  }
  if (pairs.length === 0) {
    throw new DatasetError(
      `none of ${candidates} joint answers to ${rows.length} prompts is better than another by more than ` +
        `${options.preference.minRewardGap}: rewards go from ${seen.lowest} to ${seen.highest}. Raise preferenceNumCandidates ` +
        'or the temperature, or use a reward that tells answers apart',
      { candidates, rows: rows.length, ...seen },
    )
  }
  return { pairs, candidates, constantRows }
}

const meanOf = (rewards: readonly (number | null)[]): number | null => {
  const counted = rewards.filter((reward) => reward !== null)
  return counted.length === 0 ? null : counted.reduce((sum, reward) => sum + reward, 0) / counted.length
}

async function sampleRow<Row extends PromptRow>(
  row: Row,
  index: number,
  { task, seats, samplers, config, preference, failures, signal }: CollectOptions<Row>,
): Promise<JointNode> {
  const { roots } = await growTrees([{ row, index, epoch: 0 }], {
    task,
    seats,
    samplers,
    numTurns: 1,
    generationsAt: () => preference.preferenceNumCandidates,
    jointMode: 'aligned',
    earlyTermination: null,
    externalPromptPassthrough: false,
    temperature: null,
    seed: deriveSeed(config.seed, 'candidates'),
    maxConcurrentPolicies: policiesAtOnce(config, seats),
    rewardTimeoutSeconds: config.rewardTimeoutSeconds,
    transitionTimeoutSeconds: config.transitionTimeoutSeconds,
    failures,
    signal,
  })
  return roots[0]!
}

/** Both halves of the joint answers that stand in a pair, by answer. */
async function sidesOf<Row>(
  node: JointNode,
  answers: readonly number[],
  { seats, references, signal }: Pick<CollectOptions<Row>, 'seats' | 'references' | 'signal'>,
): Promise<Map<number, PairSide[]>> {
  const made = answers.map(async (j) => {
    const answer = node.answers[j]!
    const texts = answerTexts(node, answer)
    const sides = seats.map(async ({ index, settings }): Promise<PairSide> => {
      const { tokens, logprobs } = node.completions[index]![answer.generations[index]!]!
      const prompt = node.prompts[index]!.tokens
      const reference = references[index] ?? null
      const ofReference =
        reference && tokens.length > 0
          ? (
              await reference.logprobs(Int32Array.from([...prompt, ...tokens]), {
                temperature: settings.temperature,
                signal,
              })
            ).subarray(prompt.length - 1)
          : logprobs
      return { text: texts[index]!, prompt, tokens, referenceLogprob: ofReference.reduce((sum, x) => sum + x, 0) }
    })
    return [j, await settleAll(sides)] as const
  })
  return new Map(await settleAll(made))
}
