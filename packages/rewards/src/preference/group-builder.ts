import { neverAborted, type Env, type EnvGroupBuilder, type MetricReducers, type Trajectory } from '@selfplay/env'
import type { Message, Renderer } from '@selfplay/renderers'
import { z } from 'zod'
import { RewardOptionsError } from '../errors.js'
import { judgingShape, leftOut, type JudgingOptions, type MemberReward } from '../group/group-rewards.js'
import { scoreMatches } from '../group/scores.js'
import { TOURNAMENT_PATTERNS, pairings, type TournamentPattern } from '../group/tournament.js'
import { attemptEach } from '../map-bounded.js'
import { callable, having, parseOptions } from '../options.js'
import { withoutThinking } from './messages.js'
import type { Preference, PreferenceModel } from './preference.js'

export interface PairwisePreferenceOptions extends JudgingOptions {
  /** What every member answers. */
  readonly prompt: readonly Message[]
  /** The chat format of the policy; it reads what was sampled. */
  readonly renderer: Renderer
  readonly preferenceModel: PreferenceModel
  /** Members of the group. */
  readonly numEnvs: number
  /** Makes one member's environment; all must ask the same. Called again when a member is replaced. */
  readonly makeEnv: (slot: number) => Env | Promise<Env>
  /** Default `all_pairs_one_way`, which is enough with a judge that is symmetric. */
  readonly pattern?: TournamentPattern
  /** Members meet within neighbouring chunks of this many. Default 4. */
  readonly matchupGroupSize?: number
  /** What an answer that did not end with the format's own stop loses. Default 1. */
  readonly formatCoefficient?: number
  /**
   * What the judge sees of a trajectory. Default: the messages that the policy said, without reasoning. For tasks of several
   * turns give one that puts the replies of the environment in between.
   */
  readonly completionOf?: (trajectory: Trajectory, env: Env) => readonly Message[]
  /** Names for metrics. Default `pair_pref`. */
  readonly tags?: readonly string[]
}

const schema = z.strictObject({
  prompt: z.custom<readonly Message[]>(
    (value) => Array.isArray(value) && value.length > 0,
    'expected at least one message',
  ),
  renderer: having<Renderer>('parse'),
  preferenceModel: having<PreferenceModel>('compare'),
  numEnvs: z.int().positive(),
  makeEnv: callable<PairwisePreferenceOptions['makeEnv']>(),
  pattern: z.enum(TOURNAMENT_PATTERNS).default('all_pairs_one_way'),
  matchupGroupSize: z.int().min(2).default(4),
  formatCoefficient: z.number().nonnegative().default(1),
  completionOf: callable<NonNullable<PairwisePreferenceOptions['completionOf']>>().optional(),
  tags: z.array(z.string()).default(['pair_pref']),
  ...judgingShape,
})

/** One member as the judge meets it. */
interface Answer {
  readonly completion: readonly Message[]
  /** Every reply ended with the format's own stop. */
  readonly isClean: boolean
}

/**
 * A group whose members answer one prompt and are judged against each other.
 *
 * Reward of a member: (sum over its matches of P(it is better) - P(the other is)) / its matches
 * + `formatCoefficient` * (`format` - 1), where `format` is 1 if every reply ended with the format's own stop, else 0. A
 * member that never answered is left out, as is one all of whose matches failed.
 *
 * Metrics: `win_minus_loss`, `format`, `wins`, `losses`, `ties`, `matches`, `matches_failed`, and of judges that tell them
 * `judge_label_mass` and `judge_order_gap`, the means over the member's matches.
 */
export class PairwisePreferenceGroupBuilder implements EnvGroupBuilder {
  readonly options: Readonly<z.output<typeof schema>>
  readonly metricReducers: MetricReducers = {
    matches_failed: 'sum',
    judge_label_mass: 'mean_present',
    judge_order_gap: 'mean_present',
  }

  /** @throws RewardOptionsError */
  constructor(options: PairwisePreferenceOptions) {
    this.options = parseOptions(schema, options, 'PairwisePreferenceGroupBuilder')
  }

  async makeEnvs(): Promise<Env[]> {
    return await Promise.all(
      Array.from({ length: this.options.numEnvs }, async (_, slot) => await this.options.makeEnv(slot)),
    )
  }

  /** A single environment, for the member that is played again. */
  async makeEnv(slot: number): Promise<Env> {
    return await this.options.makeEnv(slot)
  }

  loggingTags(): readonly string[] {
    return this.options.tags
  }

  /** @throws RewardFailuresError; the signal's reason when aborted */
  async computeGroupRewards(
    trajectories: readonly Trajectory[],
    envs: readonly Env[],
    { signal = neverAborted }: { readonly signal?: AbortSignal } = {},
  ): Promise<MemberReward[]> {
    if (trajectories.length !== envs.length)
      throw new RewardOptionsError(
        `computeGroupRewards: expected as many environments as trajectories, got ${envs.length} and ${trajectories.length}`,
      )
    const { pattern, matchupGroupSize, preferenceModel, prompt, budget, concurrency, timeoutSeconds } = this.options
    const answers = trajectories.map((trajectory, slot) => this.#answer(trajectory, envs[slot]!))
    const pairs = pairings(trajectories.length, { pattern, chunkSize: matchupGroupSize }).filter(
      ([first, second]) => answers[first] && answers[second],
    )
    const results = await attemptEach(
      pairs,
      async ([first, second], inner) =>
        await preferenceModel.compare(
          { prompt, completionA: answers[first]!.completion, completionB: answers[second]!.completion },
          { signal: inner },
        ),
      { budget, concurrency, timeoutSeconds, signal },
    )
    const scored = scoreMatches(
      trajectories.length,
      pairs,
      results.map((result) => (result.ok ? { ok: true, value: result.value.a - result.value.b } : result)),
      'own_matches',
    )
    return scored.map((member, slot) => {
      const judged = pairs.flatMap(([first, second], k) => {
        const result = results[k]!
        return result.ok && (first === slot || second === slot) ? [result.value] : []
      })
      return this.#reward(member, answers[slot], judged)
    })
  }

  #answer(trajectory: Trajectory, env: Env): Answer | undefined {
    const { renderer, completionOf } = this.options
    const said = trajectory.transitions.filter(({ action }) => action.tokens.length > 0)
    if (said.length === 0) return undefined
    const parsed = said.map(({ action, observation }) => renderer.parse(action.tokens, { prompt: observation }))
    return {
      completion: completionOf?.(trajectory, env) ?? parsed.map(({ message }) => withoutThinking(message)),
      isClean: parsed.every(({ termination }) => termination === 'stop'),
    }
  }

  #reward(member: MemberReward, answer: Answer | undefined, judged: readonly Preference[]): MemberReward {
    if (!answer) return leftOut('the member never answered', { matches: 0 })
    const format = answer.isClean ? 1 : 0
    const { win_score: score = 0, ...counts } = member.metrics
    const metrics = { ...counts, format, ...judgeMetrics(judged) }
    if (member.reward === null) return { ...member, metrics }
    return {
      reward: member.reward + this.options.formatCoefficient * (format - 1),
      metrics: { win_minus_loss: score, ...metrics },
    }
  }
}

function judgeMetrics(judged: readonly Preference[]): Record<string, number> {
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length
  const masses = judged.flatMap(({ labelMass }) => labelMass ?? [])
  const gaps = judged.flatMap(({ orderGap }) => orderGap ?? [])
  return {
    ...(masses.length > 0 ? { judge_label_mass: mean(masses) } : {}),
    ...(gaps.length > 0 ? { judge_order_gap: mean(gaps) } : {}),
  }
}
