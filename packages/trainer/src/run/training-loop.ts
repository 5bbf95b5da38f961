import type { CallOptions } from '@selfplay/engine'
import { evaluationDue } from '../evaluate/evaluator.js'
import type { MetricsRow, RunOutcome } from '../track/tracker.js'
import { collapseError, noteBest, type CollapseState } from './collapse.js'
import { Frame, type UpdateSignals } from './frame.js'
import { finishedNotice } from './length.js'
import type { LoopSession, LoopState } from './loop-session.js'
import type { References } from './references.js'

/** What every loop keeps. */
export interface TrainingState extends LoopState {
  /** The step of the last evaluation; -1 before the first. */
  readonly evaluatedAt: number
  /** Seconds spent in updates, over all sessions. */
  readonly seconds: number
  readonly collapse?: CollapseState
  readonly best?: { readonly step: number; readonly value: number } | null
}

/** When a loop evaluates, saves and stops. */
export interface LoopSchedule {
  readonly evalEvery: number
  readonly checkpointEvery: number
  readonly abortGraceSeconds: number
  readonly collapse?: { readonly stop: boolean } | null
}

const never = new AbortController().signal

/** The frame of a training loop: how it starts, is interrupted, evaluates, saves and ends. */
export abstract class TrainingLoop<
  S extends TrainingState,
  U extends { readonly step: number },
  C extends string = string,
> {
  protected abstract readonly session: LoopSession<S, C>
  protected abstract readonly schedule: LoopSchedule
  /** The policies that a penalty compares with, held until the run has finished. The session restores them. */
  protected readonly references: References | null = null
  protected state: S | null = null
  protected readonly frame = new Frame()

  /** The setting that ends the run, with its value. */
  protected abstract get lengthSetting(): string
  /** From where the run stands to its last update, the files being open. */
  protected abstract loop(signal: AbortSignal): AsyncGenerator<U, void, undefined>
  /** The row of an evaluation without its `step`; null when there is nothing to evaluate. */
  protected abstract measure(signal: AbortSignal): Promise<MetricsRow | null>
  /** Starts or resumes the run: called at the first update of this process. */
  protected async begin(_signal: AbortSignal): Promise<void> {
    const { state, resumed } = await this.session.start()
    if (!resumed) await this.references?.keep(this.session.folder)
    this.state = state
  }
  /** Whether there is all that a checkpoint needs. */
  protected get resumable(): boolean {
    return true
  }
  /** What a run ends with that has had its last update and evaluation. */
  protected async complete(_signal: AbortSignal): Promise<void> {}
  /** Called when the loop has ended, before the checkpoint of one that was interrupted. */
  protected async ended(outcome: RunOutcome): Promise<void> {
    if (outcome === 'finished') await this.references?.dispose()
  }

  /**
   * Trains, giving out each finished update. Leaving the loop early keeps what was learnt and writes a checkpoint; called again,
   * it goes on from there.
   */
  updates({ signal = never }: CallOptions = {}): AsyncGenerator<U, void, undefined> {
    return this.frame.run(signal, {
      session: this.session,
      loop: (own) => this.whole(own),
      step: () => (this.resumable ? (this.state?.step ?? null) : null),
      save: () => this.session.save(this.state!),
      ended: (outcome) => this.ended(outcome),
    })
  }

  /**
   * Lets go of what a run that was aborted or failed still holds for going on: frozen copies of the policies that a penalty
   * compares with, and with them their models. A run that has finished holds nothing. The clients stay as they are; the trainer
   * trains no more.
   *
   * @throws ConfigError while it trains.
   */
  async dispose(): Promise<void> {
    this.frame.retire()
    await this.references?.dispose()
  }

  private async *whole(signal: AbortSignal): AsyncGenerator<U, void, undefined> {
    if (this.state) await this.session.reopen(this.state.step)
    else await this.begin(signal)
    await this.evaluateIfDue(false, signal)
    const { step } = this.state!
    yield* this.loop(signal)
    if (this.state!.step === step) await this.session.notice(finishedNotice(step, this.lengthSetting))
    // Before the last evaluation, which a longer run would not have made: resuming cuts its row, and makes it again if need be.
    await this.session.save(this.state!)
    await this.evaluateIfDue(true, signal)
    await this.complete(signal)
  }

  /** Runs an update that may change weights. What it returns becomes the state, all at once. */
  protected change<T extends { readonly state: S }>(
    signal: AbortSignal,
    update: (signals: UpdateSignals) => Promise<T>,
  ): Promise<T> {
    return this.frame.change(signal, this.schedule.abortGraceSeconds, async (signals) => {
      const done = await update(signals)
      this.state = done.state
      return done
    })
  }

  /** Evaluates when the schedule says so: before the first update, every `evalEvery`, and after the last. */
  protected async evaluateIfDue(last: boolean, signal: AbortSignal): Promise<void> {
    const { step } = this.state!
    if (!evaluationDue(this.state!, { every: this.schedule.evalEvery, last })) return
    const row = await this.measure(signal)
    if (row === null) return
    await this.session.evaluation({ step, ...row })
    this.state = { ...this.state!, evaluatedAt: step }
  }

  /** What an update ends with: a checkpoint when one is due, and the end of a run that has collapsed and is to stop then. */
  protected async endUpdate(): Promise<void> {
    const { checkpointEvery, collapse } = this.schedule
    if (checkpointEvery > 0 && this.state!.step % checkpointEvery === 0) {
      if (this.session.folder) this.state = noteBest(this.state!)
      await this.session.save(this.state!)
    }
    if (collapse?.stop && this.state!.collapse?.collapsed) throw collapseError(this.state!)
  }
}
