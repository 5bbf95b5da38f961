import type { CallOptions, TrainingClient } from '@selfplay/engine'
import { evaluationDue, runEvaluators, type Evaluator } from '../evaluate/evaluator.js'
import { Frame, type UpdateSignals } from './frame.js'
import { finishedNotice } from './length.js'
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

const never = new AbortController().signal

/** The frame of a loop that trains one policy: how it starts, is interrupted, evaluates and ends. */
export abstract class TrainingLoop<S extends TrainingState, U extends { readonly step: number }> {
  protected abstract readonly session: LoopSession<S>
  protected abstract readonly setup: LoopSetup
  protected state: S | null = null
  private readonly frame = new Frame()

  /** Updates of the whole run; null while an async data set keeps its length to itself. */
  abstract get totalSteps(): number | null
  /** Called once, before the first update of this session. `resumed`: the state is that of a checkpoint. */
  protected abstract begin(signal: AbortSignal): Promise<void>
  /** The setting that ends the run, with its value. */
  protected abstract get lengthSetting(): string
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
  updates({ signal = never }: CallOptions = {}): AsyncGenerator<U, void, undefined> {
    return this.frame.run(signal, {
      session: this.session,
      loop: (own) => this.whole(own),
      step: () => this.state?.step ?? null,
      save: () => this.save(),
      ended: async (outcome) => {
        if (outcome === 'finished') await this.finished()
      },
    })
  }

  private async *whole(signal: AbortSignal): AsyncGenerator<U, void, undefined> {
    if (this.state) await this.session.reopen()
    else await this.begin(signal)
    await this.evaluateIfDue(false, signal)
    const { step } = this.state!
    yield* this.loop(signal)
    if (this.state!.step === step) await this.session.notice(finishedNotice(step, this.lengthSetting))
    // Before the last evaluation, which a longer run would not have made: resuming cuts its row, and makes it again if need be.
    await this.save()
    await this.evaluateIfDue(true, signal)
  }

  protected save(): Promise<void> {
    return this.session.save(this.state!, this.protectedSteps())
  }

  /** Runs an update that may change weights. What it returns becomes the state, all at once. */
  protected change<T extends { readonly state: S }>(
    signal: AbortSignal,
    update: (signals: UpdateSignals) => Promise<T>,
  ): Promise<T> {
    return this.frame.change(signal, this.setup.abortGraceSeconds, async (signals) => {
      const done = await update(signals)
      this.state = done.state
      return done
    })
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
}
