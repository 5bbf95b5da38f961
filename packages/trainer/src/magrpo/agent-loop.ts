import type { CallOptions } from '@selfplay/engine'
import { deriveSeed } from '@selfplay/env'
import { followSignal } from '../deadline.js'
import { ConfigError } from '../errors.js'
import { Frame } from '../run/frame.js'
import type { RunOutcome } from '../track/tracker.js'
import { Samplers, type Table } from './agents.js'
import { checkEvaluateArgs } from './check-evaluate.js'
import type { ResolvedConfig } from './config.js'
import { evaluateRows, type Evaluation } from './evaluate.js'
import { finishedNotice } from '../run/length.js'
import { RewardFailures } from './judge.js'
import type { Notice } from './notices.js'
import type { Session } from './session.js'
import type { TrainerState } from './state.js'
import type { PromptRow, Task } from './types.js'

export interface TrainResult {
  /** Updates finished. */
  readonly steps: number
  readonly seconds: number
  /** The newest checkpoint, when there is a run folder. */
  readonly checkpoint: string | null
}

/** Evaluation settings that differ from the config's. */
export interface EvaluateArgs<Row> extends CallOptions {
  /** Default: the first `evalNumSamples` rows of `evalDataset`. */
  readonly rows?: readonly Row[]
  /** Joint answers per row. Default `evalGenerations`. */
  readonly generations?: number
  /** Default `evalTemperature`. */
  readonly temperature?: number
  /** Default: derived from the run's seed; the same at every evaluation. */
  readonly seed?: number
}

const never = new AbortController().signal

/** The frame of a loop that trains agents: how it starts, is interrupted, evaluates and ends. */
export abstract class AgentLoop<Row extends PromptRow, U> {
  abstract readonly config: ResolvedConfig
  abstract readonly table: Table
  protected abstract readonly options: Task<Row> & { readonly evalDataset?: readonly Row[] }
  protected abstract readonly session: Session
  protected readonly samplers = new Samplers()
  protected readonly frame = new Frame()
  protected state: TrainerState | null = null

  /** From the first update of this session, the files being open, to the last. */
  protected abstract loop(signal: AbortSignal): AsyncGenerator<U, void, undefined>
  /** Called before a run is started or taken up. */
  protected begin(): Promise<void> {
    return Promise.resolve()
  }
  /** Called when the run has come to its end. */
  protected finished(): Promise<void> {
    return Promise.resolve()
  }
  /** Whether there is all that a checkpoint needs. */
  protected get resumable(): boolean {
    return true
  }

  /**
   * Trains to the end.
   *
   * @throws the signal's reason when aborted, after a checkpoint that resumes; SelfplayError subclasses for everything that
   *   goes wrong, naming the place.
   */
  async train(options: CallOptions = {}): Promise<TrainResult> {
    for await (const _update of this.updates(options)) {
      // The loop body is the caller's; train() has none.
    }
    const { step, seconds } = this.state!
    return { steps: step, seconds, checkpoint: this.session.checkpoint }
  }

  /** Trains, giving out each finished update. Leaving the loop early keeps what was learnt and writes a checkpoint. */
  updates({ signal = never }: CallOptions = {}): AsyncGenerator<U, void, undefined> {
    return this.frame.run(signal, {
      session: this.session,
      loop: (own) => this.whole(own),
      step: () => (this.resumable ? (this.state?.step ?? null) : null),
      save: () => this.session.save(this.state!),
      ended: (outcome) => this.end(outcome),
    })
  }

  private async *whole(signal: AbortSignal): AsyncGenerator<U, void, undefined> {
    await this.begin()
    if (this.state) await this.session.reopen()
    else this.state = await this.session.start()
    await this.samplers.release()
    await this.evaluateIfDue(false, signal)
    const { step } = this.state
    yield* this.loop(signal)
    if (this.state.step === step) await this.session.notice(this.nothingLeft())
    // Before the last evaluation, which a longer run would not have made: resuming cuts its row, and makes it again if need be.
    await this.session.save(this.state)
    await this.evaluateIfDue(true, signal)
  }

  private nothingLeft(): Notice {
    const { maxSteps, numTrainEpochs } = this.config
    const { step } = this.state!
    const isCapped = maxSteps !== null && step >= maxSteps
    return finishedNotice(step, isCapped ? `maxSteps ${maxSteps}` : `numTrainEpochs ${numTrainEpochs}`)
  }

  private async end(outcome: RunOutcome): Promise<void> {
    await this.samplers.release()
    if (outcome === 'finished') await this.finished()
  }

  /** Evaluates when the schedule says so: before the first update, every `evalInterval`, and after the last. */
  protected async evaluateIfDue(last: boolean, signal: AbortSignal): Promise<void> {
    const { step, evaluatedAt } = this.state!
    const { evalInterval } = this.config
    const due = step === 0 || last || (evalInterval > 0 && step % evalInterval === 0)
    if (!this.options.evalDataset || !due || evaluatedAt === step) return
    const { metrics } = await this.runEvaluation({ signal })
    const named = Object.entries(metrics).map(([name, value]) => [`eval/${name}`, value] as const)
    await this.session.evaluation({ step, ...Object.fromEntries(named) })
    this.state = { ...this.state!, evaluatedAt: step }
  }

  /**
   * Lets the agents answer rows without training on them, and without early endings.
   *
   * @throws ConfigError when there are no rows to answer.
   */
  async evaluate(args: EvaluateArgs<Row> = {}): Promise<Evaluation> {
    checkEvaluateArgs(args)
    if (this.frame.busy) throw new ConfigError('evaluate: wait until the training loop has ended, or set evalInterval')
    const own = followSignal(args.signal ?? never)
    try {
      return await this.runEvaluation({ ...args, signal: own.signal })
    } finally {
      await this.samplers.release()
      own.release()
    }
  }

  private async runEvaluation(args: EvaluateArgs<Row>): Promise<Evaluation> {
    const { config, table, samplers, options } = this
    const rows = args.rows ?? options.evalDataset?.slice(0, config.evalNumSamples) ?? []
    if (rows.length === 0) throw new ConfigError('evaluate: expected rows, or an evalDataset, got none')
    const { succeeded } = this.state?.failures ?? { succeeded: 0 }
    return evaluateRows(
      rows,
      { config, table, task: options, samplers },
      {
        generations: args.generations ?? config.evalGenerations,
        temperature: args.temperature ?? config.evalTemperature,
        seed: args.seed ?? deriveSeed(config.seed, 'evaluation'),
        failures: new RewardFailures(config.maxConsecutiveRewardFailures, {
          succeeded,
          consecutive: 0,
          total: 0,
          first: null,
        }),
        signal: args.signal ?? never,
      },
    )
  }
}
