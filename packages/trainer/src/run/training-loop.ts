import type { CallOptions, TrainingClient } from '@selfplay/engine'
import { followSignal } from '../deadline.js'
import { ConfigError } from '../errors.js'
import { evaluationDue, runEvaluators, type Evaluator } from '../evaluate/evaluator.js'
import { Grace } from '../grace.js'
import type { LoopSession, LoopState } from './loop-session.js'

/** What every loop of one policy keeps. */
export interface TrainingState extends LoopState {
  /** The step of the last evaluation; -1 before the first. */
  readonly evaluatedAt: number
  /** Seconds spent in updates, over all sessions. */
  readonly seconds: number
}

/** How a loop is set up, apart from what it trains on. */
export interface LoopSetup {
  readonly client: TrainingClient
  readonly evaluators: readonly Evaluator[]
  readonly seed: number
  readonly evalEvery: number
  readonly abortGraceSeconds: number
}

/** What is passed on to an update while it changes weights. */
export interface UpdateSignals {
  /** Aborts with the caller's signal, or so much later once weights have changed. */
  readonly trainSignal: AbortSignal
  /** To be called before the weights change. */
  readonly onWeightsChange: () => void
}

const never = new AbortController().signal

/** The frame of a loop that trains one policy: how it starts, is interrupted, evaluates and ends. */
export abstract class TrainingLoop<S extends TrainingState, U extends { readonly step: number }> {
  protected abstract readonly session: LoopSession<S>
  protected abstract readonly setup: LoopSetup
  protected state: S | null = null
  private running = false
  /** False from the first changed weight of an update to its end. */
  private consistent = true

  /** Updates of the whole run; null while an async data set keeps its length to itself. */
  abstract get totalSteps(): number | null
  /** Called once, before the first update of this session. `resumed`: the state is that of a checkpoint. */
  protected abstract begin(): Promise<void>
  protected abstract loop(signal: AbortSignal): AsyncGenerator<U, void, undefined>
  /** Steps whose checkpoints are kept beside the newest ones. */
  protected protectedSteps(): number[] {
    return []
  }
  /** Called when the run has come to its end. */
  protected finished(): Promise<void> {
    return Promise.resolve()
  }

  /** Trains, giving out each finished update. Leaving the loop early keeps what was learnt and writes a checkpoint. */
  async *updates({ signal = never }: CallOptions = {}): AsyncGenerator<U, void, undefined> {
    if (this.running) throw new ConfigError('this run is already training: wait for it, or make a second one')
    if (!this.consistent)
      throw new ConfigError(
        'this run stopped in the middle of an update: make a new one that resumes from a checkpoint',
      )
    this.running = true
    const own = followSignal(signal)
    let outcome: 'finished' | 'failed' | 'aborted' = 'aborted'
    try {
      signal.throwIfAborted()
      if (this.state) await this.session.reopen()
      else await this.begin()
      await this.evaluateIfDue(false, own.signal)
      yield* this.loop(own.signal)
      await this.evaluateIfDue(true, own.signal)
      await this.save()
      outcome = 'finished'
    } catch (error) {
      if (!signal.aborted) outcome = 'failed'
      throw error
    } finally {
      own.release()
      await this.stop(outcome)
    }
  }

  protected save(): Promise<void> {
    return this.session.save(this.state!, this.protectedSteps())
  }

  /** Runs an update that may change weights. What it returns becomes the state, all at once. */
  protected async change<T extends { readonly state: S }>(
    signal: AbortSignal,
    update: (signals: UpdateSignals) => Promise<T>,
  ): Promise<T> {
    const grace = new Grace(signal, this.setup.abortGraceSeconds)
    const onWeightsChange = () => {
      this.consistent = false
      grace.start()
    }
    try {
      const done = await update({ trainSignal: grace.signal, onWeightsChange })
      this.state = done.state
      this.consistent = true
      return done
    } finally {
      grace.end()
    }
  }

  /** Evaluates when the schedule says so: before the first update, every `evalEvery`, and after the last. */
  protected async evaluateIfDue(last: boolean, signal: AbortSignal): Promise<void> {
    const { evaluators, evalEvery, client, seed } = this.setup
    const { step } = this.state!
    if (evaluators.length === 0 || !evaluationDue(this.state!, { every: evalEvery, last })) return
    const metrics = await runEvaluators(evaluators, client, { step, seed, signal })
    await this.session.evaluation({ step, ...metrics })
    this.state = { ...this.state!, evaluatedAt: step }
  }

  private async stop(outcome: 'finished' | 'failed' | 'aborted'): Promise<void> {
    try {
      if (!this.consistent) await this.tellOfGivenUp()
      if (this.state && this.consistent && outcome !== 'finished') {
        await this.save().catch((error: unknown) => {
          if (outcome === 'aborted') throw error
          const message = `no checkpoint could be written: ${String(error)}`
          return this.session.notice({ code: 'checkpoint', level: 'warning', message })
        })
      }
      if (outcome === 'finished') await this.finished()
    } finally {
      this.running = false
      await this.session.close(outcome)
    }
  }

  private async tellOfGivenUp(): Promise<void> {
    const from = this.session.checkpoint ?? 'the start: there is no checkpoint yet'
    const message = `update ${this.state!.step + 1} was given up after the weights had changed: resuming goes on from ${from}`
    await this.session.notice({ code: 'checkpoint', level: 'warning', message })
  }
}
