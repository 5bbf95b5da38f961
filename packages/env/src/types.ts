import type { Message } from '@selfplay/renderers'
import type { Logs, MetricReducers, Metrics } from './metrics.js'
import type { RolloutLimits } from './rollout/limits.js'
import type { StopReason } from './stop-reason.js'

export interface CallOptions {
  /** Aborts the call: it rejects with the signal's reason and leaves nothing half done. */
  readonly signal: AbortSignal
}

/** What ends a sample: token ids, and strings once they stand in the decoded text. */
export type StopCondition = readonly (number | string)[]

/** What the policy is asked to continue. */
export interface Observation {
  /** Prompt ids, int32 [P]. */
  readonly tokens: Int32Array
  readonly stop: StopCondition
  /** Most tokens that may be sampled, at least 1. Absent: no limit of the environment. */
  readonly maxTokens?: number
}

/** A first prompt that does not fit: the episode is over before it began. */
export interface InitialOverflow {
  readonly overflow: true
  readonly reward: number
  readonly metrics?: Metrics
  readonly logs?: Logs
}

/** What a policy sampled, N tokens. */
export interface Action {
  /** Sampled ids, int32 [N], the stop token included. */
  readonly tokens: Int32Array
  /** Log-probs of `tokens` under the policy that sampled them, float32 [N]. Scripted and human policies have none. */
  readonly logprobs?: Float32Array
  /** `stop`: it ended by itself. `length`: it was cut off. */
  readonly stopReason: 'stop' | 'length'
  /** Probability that top-k/top-p kept at each draw, float32 [N], where the sampler tells it. */
  readonly keptMass?: Float32Array
  /** Number of optimiser steps behind the weights that sampled it, where the sampler tells it. */
  readonly policyVersion?: number
}

export interface StepResult {
  readonly reward: number
  readonly episodeDone: boolean
  /** What comes next; after the last step, what the policy has seen and said. */
  readonly nextObservation: Observation
  /** Why the episode ended. Absent while it goes on, and where the environment names no reason. */
  readonly stopReason?: StopReason
  readonly metrics?: Metrics
  readonly logs?: Logs
  /** The message that the action was read as, for environments that speak in messages. */
  readonly message?: Message
  /** Keep the action's tokens in the sequence and do not train on them. */
  readonly masked?: boolean
}

/** What an environment adds when a budget of the runner ends its episode. */
export interface FinishResult {
  /** Added to the reward of the last step; with `replaces`, it takes its place. */
  readonly reward: number
  /** Default false. */
  readonly replaces?: boolean
  readonly metrics?: Metrics
  readonly logs?: Logs
}

/** A task at the level of tokens. It serves one episode. */
export interface Env {
  initialObservation(options: CallOptions): Observation | InitialOverflow | Promise<Observation | InitialOverflow>
  step(action: Action, options: CallOptions): StepResult | Promise<StepResult>
  /** Called once when a budget of the runner ends the episode, so that what was reached can still be graded. */
  finish?(reason: StopReason, options: CallOptions): FinishResult | undefined | Promise<FinishResult | undefined>
  /** Limits that the environment asks the runner for. Those given to the runner win, one by one. */
  readonly limits?: Partial<RolloutLimits>
  readonly metricReducers?: MetricReducers
  /** Names the example, the same in every run. */
  readonly exampleId?: string | undefined
  /** Lets go of what the environment holds. Called once, also after a failure. */
  close?(): void | Promise<void>
}

/** One step of an episode. One without sampled tokens carries a reward and no training data. */
export interface Transition {
  /** Prompt ids, int32 [P]. */
  readonly observation: Int32Array
  readonly action: Action
  readonly reward: number
  readonly episodeDone: boolean
  readonly metrics: Metrics
  readonly logs: Logs
  readonly message?: Message
  /** Its tokens are kept in the sequence and not trained on. */
  readonly masked?: boolean
}

export interface Trajectory {
  readonly transitions: readonly Transition[]
  /** Ids of the prompt that would have come next; of an episode that is done, what the policy has seen and said. */
  readonly finalObservation: Int32Array
  readonly stopReason: StopReason | null
}

/** Sum of the step rewards. */
export const totalReward = (trajectory: Trajectory): number =>
  trajectory.transitions.reduce((total, transition) => total + transition.reward, 0)

/** The reward of the last step of an episode that was finished. */
export const finishedReward = (last: number, finished: FinishResult | undefined): number =>
  finished?.replaces ? finished.reward : last + (finished?.reward ?? 0)

/** Number of tokens that the policy sampled. */
export const sampledTokens = (trajectory: Trajectory): number =>
  trajectory.transitions.reduce((total, transition) => total + transition.action.tokens.length, 0)

/**
 * What each turn and the ones after it earned: g_k = r_k + discount * g_(k+1).
 *
 * @param discount from 0 to 1. Default 1: rewards [1, 0, 2] give [3, 2, 2]
 */
export function returnsToGo(trajectory: Trajectory, discount = 1): number[] {
  let after = 0
  return trajectory.transitions
    .map(({ reward }) => reward)
    .reverse()
    .map((reward) => (after = reward + discount * after))
    .reverse()
}
