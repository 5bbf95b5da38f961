import { bounded, type Deadline } from '../deadline.js'
import { neverAborted } from '../on-abort.js'
import { checkMetrics } from '../conversation.js'
import { EnvContractError, EnvInputError, TimeoutError } from '../errors.js'
import { namesOf } from '../options.js'
import { deriveSeed } from '../random.js'
import type { Sampler } from '../sampler.js'
import { STOP_REASONS, isStopReason, type StopReason } from '../stop-reason.js'
import {
  finishedReward,
  type Action,
  type Env,
  type InitialOverflow,
  type Observation,
  type StepResult,
  type Trajectory,
  type Transition,
} from '../types.js'
import { RolloutError, across, codeOf } from './failure.js'
import { limitsFor, parseLimits, type RolloutLimits } from './limits.js'

export interface RolloutOptions {
  readonly env: Env
  readonly sample: Sampler
  /** Each limit given here wins over the environment's own. */
  readonly limits?: Partial<RolloutLimits>
  /** Seeds the samples: turn k gets a seed of its own. Default: no seeds, the sampler draws as it likes. */
  readonly seed?: number
  readonly signal?: AbortSignal
}

const checkNames = namesOf<RolloutOptions>('runRollout', 'env', 'sample', 'limits', 'seed', 'signal')

/**
 * Plays one episode of an environment with a sampler.
 *
 * @returns the trajectory. One that a limit ended is returned too, with the reason
 * @throws RolloutError naming the boundary where it failed; the signal's reason when aborted
 */
export function runRollout(options: RolloutOptions): Promise<Trajectory> {
  checkNames(options)
  const { env, sample, limits = {}, seed, signal = neverAborted } = options
  return new Rollout(env, sample, limitsFor(env, parseLimits(limits)), seed, signal).run()
}

const NOTHING = new Int32Array(0)
const noAction: Action = { tokens: NOTHING, stopReason: 'stop' }
const timeoutCode = 'rollout_timeout'

/** One episode on its way. `limits` are complete and checked. */
export class Rollout {
  readonly #env: Env
  readonly #sample: Sampler
  readonly #limits: RolloutLimits
  readonly #seed: number | undefined
  readonly #signal: AbortSignal
  readonly #transitions: Transition[] = []
  readonly #startedAt = performance.now()
  #sampled = 0

  constructor(env: Env, sample: Sampler, limits: RolloutLimits, seed: number | undefined, signal: AbortSignal) {
    this.#env = env
    this.#sample = sample
    this.#limits = limits
    this.#seed = seed
    this.#signal = signal
  }

  async run(): Promise<Trajectory> {
    const first = await this.#callEnv('initialObservation', (signal) => this.#env.initialObservation({ signal }))
    if ('overflow' in first) return this.#neverBegun(first)
    let observation: Observation = first
    for (;;) {
      const stop = this.#stopBeforeTurn(observation)
      if (stop) return this.#stop(stop, observation)
      const turn = await this.#turn(observation)
      if (typeof turn === 'string') return this.#stop(turn, observation)
      observation = turn.nextObservation
      if (turn.episodeDone)
        return {
          transitions: this.#transitions,
          finalObservation: observation.tokens,
          stopReason: turn.stopReason ?? null,
        }
    }
  }

  /** One sample and one step; or why the episode stops instead. */
  async #turn(observation: Observation): Promise<StepResult | StopReason> {
    try {
      const action = await this.#act(observation)
      const result = await this.#callEnv('step', (signal) => this.#env.step(action, { signal }))
      this.#record(observation, action, result)
      return result
    } catch (error) {
      if (!(error instanceof RolloutError)) throw error
      const code = codeOf(error.cause)
      // The deadline of the whole keeps what was reached; a rollout without a single step has reached nothing.
      if (code === timeoutCode && this.#transitions.length > 0) return 'rollout_timeout'
      if (code === 'context_overflow' && error.boundary === 'sampler') return 'context_overflow'
      throw error
    }
  }

  #stopBeforeTurn({ tokens }: Observation): StopReason | undefined {
    const { maxTurns } = this.#limits
    if (this.#transitions.length > 0 && this.#remainingMs() <= 0) return 'rollout_timeout'
    if (maxTurns !== null && this.#transitions.length >= maxTurns) return 'max_turns'
    const { trajectory, episode } = this.#remaining(tokens.length)
    if (trajectory <= 1) return 'max_tokens'
    return episode <= 1 ? 'max_sampled_tokens' : undefined
  }

  #remaining(prompt: number): { trajectory: number; episode: number } {
    const { maxTrajectoryTokens, maxEpisodeTokens } = this.#limits
    return {
      trajectory: (maxTrajectoryTokens ?? Infinity) - prompt,
      episode: (maxEpisodeTokens ?? Infinity) - this.#sampled,
    }
  }

  async #act({ tokens: prompt, stop, maxTokens: cap = Infinity }: Observation): Promise<Action> {
    const { trajectory, episode } = this.#remaining(prompt.length)
    const maxTokens = Math.min(cap, this.#limits.maxTurnTokens ?? Infinity, trajectory, episode)
    const turn = this.#transitions.length
    const request = {
      prompt,
      stop,
      turn,
      ...(maxTokens === Infinity ? {} : { maxTokens }),
      ...(this.#seed === undefined ? {} : { seed: deriveSeed(this.#seed, turn) }),
    }
    const action = await across('sampler', this.#signal, async () => {
      const deadlines = this.#deadlines(this.#limits.sampleTimeoutSeconds, 'sample_timeout', 'the sampler')
      const sampled = await bounded((signal) => this.#sample({ ...request, signal }), {
        signal: this.#signal,
        deadlines,
      })
      checkAction(sampled, maxTokens, turn)
      return sampled
    })
    this.#sampled += action.tokens.length
    return action
  }

  #callEnv<T>(method: string, call: (signal: AbortSignal) => T | Promise<T>): Promise<T> {
    return across('env', this.#signal, () => {
      const deadlines = this.#deadlines(this.#limits.envTimeoutSeconds, 'env_timeout', `env.${method}`)
      return bounded(call, { signal: this.#signal, deadlines })
    })
  }

  #deadlines(seconds: number | null, code: `${string}_timeout`, what: string): Deadline[] {
    const { rolloutTimeoutSeconds } = this.#limits
    const own = seconds === null ? [] : [{ ms: seconds * 1000, expired: () => new TimeoutError(what, seconds, code) }]
    if (rolloutTimeoutSeconds === null) return own
    const expired = () => new TimeoutError(`the rollout (in ${what})`, rolloutTimeoutSeconds, timeoutCode)
    return [...own, { ms: this.#remainingMs(), expired }]
  }

  #remainingMs(): number {
    const { rolloutTimeoutSeconds } = this.#limits
    if (rolloutTimeoutSeconds === null) return Infinity
    return rolloutTimeoutSeconds * 1000 - (performance.now() - this.#startedAt)
  }

  #record(observation: Observation, action: Action, result: StepResult): void {
    checkStep(result, this.#transitions.length)
    const { reward, episodeDone, stopReason, metrics = {}, logs = {}, message, masked } = result
    const truncated = !episodeDone && action.stopReason === 'length' ? { truncated_turns: 1 } : {}
    const stop = episodeDone && stopReason ? { [`stop/${stopReason}`]: 1 } : {}
    this.#transitions.push({
      observation: observation.tokens,
      action,
      reward,
      episodeDone,
      metrics: { ...metrics, ...truncated, ...stop },
      logs,
      ...(message ? { message } : {}),
      ...(masked ? { masked } : {}),
    })
  }

  /** A limit ends the episode: the environment may still grade it, and the last step says why. */
  async #stop(reason: StopReason, observation: Observation): Promise<Trajectory> {
    const seconds = this.#limits.envTimeoutSeconds
    const finish = this.#env.finish?.bind(this.#env)
    const finished = await across('env', this.#signal, () => {
      if (!finish) return undefined
      const expired = () => new TimeoutError('env.finish', seconds!, 'env_timeout')
      const deadlines = seconds === null ? [] : [{ ms: seconds * 1000, expired }]
      return bounded((signal) => finish(reason, { signal }), { signal: this.#signal, deadlines })
    })
    const last = this.#transitions.pop() ?? empty
    const reward = finishedReward(last.reward, finished)
    const metrics = { ...last.metrics, ...finished?.metrics, [`stop/${reason}`]: 1 }
    checkStep({ reward, episodeDone: true, nextObservation: observation, metrics: finished?.metrics ?? {} }, 'finish')
    this.#transitions.push({ ...last, reward, episodeDone: true, metrics, logs: { ...last.logs, ...finished?.logs } })
    return { transitions: this.#transitions, finalObservation: observation.tokens, stopReason: reason }
  }

  #neverBegun({ reward, metrics, logs = {} }: InitialOverflow): Trajectory {
    const transition = { ...empty, reward, metrics: { ...metrics, 'stop/context_overflow': 1 }, logs }
    return { transitions: [transition], finalObservation: NOTHING, stopReason: 'context_overflow' }
  }
}

/** Carries the reward of an episode without a turn. */
const empty: Transition = {
  observation: NOTHING,
  action: noAction,
  reward: 0,
  episodeDone: true,
  metrics: {},
  logs: {},
}

function checkAction(action: Action, cap: number, turn: number): void {
  const { tokens, logprobs, stopReason } = action
  if (!(tokens instanceof Int32Array))
    throw new EnvInputError(`turn ${turn}: expected the sampler to give tokens as an Int32Array`, { turn })
  if (tokens.length > cap)
    throw new EnvInputError(`turn ${turn}: the sampler gave ${tokens.length} tokens, at most ${cap} were asked for`, {
      turn,
    })
  if (logprobs !== undefined && logprobs.length !== tokens.length)
    throw new EnvInputError(`turn ${turn}: the sampler gave ${tokens.length} tokens and ${logprobs.length} log-probs`, {
      turn,
      tokens: tokens.length,
      logprobs: logprobs.length,
    })
  if (stopReason !== 'stop' && stopReason !== 'length')
    throw new EnvInputError(`turn ${turn}: expected stopReason "stop" or "length", got ${String(stopReason)}`, {
      turn,
    })
}

function checkStep(result: StepResult, turn: number | 'finish'): void {
  const where = turn === 'finish' ? 'env.finish' : `env.step (turn ${turn})`
  if (!Number.isFinite(result.reward))
    throw new RolloutError(
      'env',
      new EnvContractError(`${where}: expected a finite reward, got ${String(result.reward)}`),
    )
  if (result.stopReason !== undefined && !isStopReason(result.stopReason))
    throw new RolloutError(
      'env',
      new EnvContractError(
        `${where}: stopReason ${String(result.stopReason)} is not one of ${STOP_REASONS.join(', ')}`,
      ),
    )
  try {
    checkMetrics(result.metrics, where)
  } catch (error) {
    throw new RolloutError('env', error)
  }
}
