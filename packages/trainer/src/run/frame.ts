import { followSignal } from '../deadline.js'
import { ConfigError } from '../errors.js'
import { Grace } from '../grace.js'
import { isBrokenPolicy } from './broken-policy.js'
import type { RunOutcome } from '../track/tracker.js'

/** What is passed on to an update while it changes weights. */
export interface UpdateSignals {
  /** Aborts with the caller's signal, or so much later once weights have changed. */
  readonly trainSignal: AbortSignal
  /** To be called before the weights change. */
  readonly onWeightsChange: () => void
}

/** What a frame needs of the loop in it. */
export interface FramedLoop<U> {
  readonly session: {
    readonly checkpoint: string | null
    notice(notice: { readonly code: 'checkpoint'; readonly level: 'warning'; readonly message: string }): Promise<void>
    close(outcome: RunOutcome, signal: AbortSignal): Promise<void>
  }
  /** From where the run stands to its end, giving out each finished update. */
  loop(signal: AbortSignal): AsyncGenerator<U, void, undefined>
  /** Finished updates; null as long as there is nothing that a checkpoint could hold. */
  step(): number | null
  save(): Promise<void>
  /** Called when the loop has ended, before the checkpoint of one that was interrupted. */
  ended?(outcome: RunOutcome): Promise<void>
}

/** What is the same in every training loop: only one at a time, interrupted between updates, and ended in order. */
export class Frame {
  private running = false
  private retired = false
  /** False from the first changed weight of an update to its end. */
  private consistent = true

  get busy(): boolean {
    return this.running
  }

  /** @throws ConfigError when it runs already or stopped within an update; the signal's reason; whatever the loop throws. */
  async *run<U>(signal: AbortSignal, framed: FramedLoop<U>): AsyncGenerator<U, void, undefined> {
    if (this.running) throw new ConfigError('this trainer is already training: wait for it, or make a second one')
    if (!this.consistent) {
      throw new ConfigError(
        'this trainer stopped in the middle of an update: make a new one that resumes from a checkpoint',
      )
    }
    if (this.retired) throw new ConfigError('this trainer was disposed of: make a new one')
    this.running = true
    const own = followSignal(signal)
    let outcome: RunOutcome = 'aborted'
    let failure: unknown
    try {
      signal.throwIfAborted()
      yield* framed.loop(own.signal)
      outcome = 'finished'
    } catch (error) {
      if (!signal.aborted) outcome = 'failed'
      failure = error
      throw error
    } finally {
      own.release()
      await this.stop(outcome, signal, framed, failure)
    }
  }

  /** Refuses all further runs. @throws ConfigError during one. */
  retire(): void {
    if (this.running)
      throw new ConfigError('this trainer is still training: abort it or leave its loop, then dispose of it')
    this.retired = true
  }

  /** Runs an update that may change weights. It has to leave all of the state as it is, or as it is after the update. */
  async change<T>(
    signal: AbortSignal,
    graceSeconds: number,
    update: (signals: UpdateSignals) => Promise<T>,
  ): Promise<T> {
    const grace = new Grace(signal, graceSeconds)
    const onWeightsChange = () => {
      this.consistent = false
      grace.start()
    }
    try {
      const done = await update({ trainSignal: grace.signal, onWeightsChange })
      this.consistent = true
      return done
    } finally {
      grace.end()
    }
  }

  private async stop(
    outcome: RunOutcome,
    signal: AbortSignal,
    framed: FramedLoop<unknown>,
    failure: unknown,
  ): Promise<void> {
    const { session } = framed
    const warn = (message: string) => session.notice({ code: 'checkpoint', level: 'warning', message })
    try {
      await framed.ended?.(outcome)
      const finished = framed.step()
      if (!this.consistent) {
        const from = session.checkpoint ?? 'the start: there is no checkpoint yet'
        const given = `update ${(finished ?? 0) + 1} was given up while it was changing weights`
        await warn(`${given}: resuming goes on from ${from}`)
      } else if (isBrokenPolicy(failure)) {
        await warn(`no checkpoint is written of the weights after update ${finished}: they are damaged`)
      } else if (finished !== null && outcome !== 'finished') {
        await framed.save().catch((error: unknown) => {
          if (outcome === 'aborted') throw error
          return warn(`no checkpoint could be written: ${String(error)}`)
        })
      }
    } finally {
      this.running = false
      await session.close(outcome, signal)
    }
  }
}
