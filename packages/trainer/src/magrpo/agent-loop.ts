import { NonFiniteError, type CallOptions, type ExportOptions } from '@selfplay/engine'
import { deriveSeed } from '@selfplay/env'
import { followSignal } from '../deadline.js'
import { ConfigError } from '../errors.js'
import { TrainingLoop, type LoopSchedule } from '../run/training-loop.js'
import type { MetricsRow, RunOutcome } from '../track/tracker.js'
import { Samplers, type Table } from './agents.js'
import { checkEvaluateArgs } from './check-evaluate.js'
import type { ResolvedConfig } from './config.js'
import { evaluateRows, type Evaluation } from './evaluate.js'
import { RewardFailures } from './judge.js'
import type { NoticeCode } from './notices.js'
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

/** A loop that trains agents and measures them by letting them answer. */
export abstract class AgentLoop<Row extends PromptRow, U extends { readonly step: number }> extends TrainingLoop<
  TrainerState,
  U,
  NoticeCode
> {
  abstract readonly config: ResolvedConfig
  abstract readonly table: Table
  protected abstract readonly options: Task<Row> & { readonly evalDataset?: readonly Row[] }
  protected readonly samplers = new Samplers()

  protected get schedule(): LoopSchedule {
    return { ...this.config, evalEvery: this.config.evalInterval }
  }

  protected get lengthSetting(): string {
    const { maxSteps, numTrainEpochs } = this.config
    const isCapped = maxSteps !== null && this.state!.step >= maxSteps
    return isCapped ? `maxSteps ${maxSteps}` : `numTrainEpochs ${numTrainEpochs}`
  }

  protected override async begin(signal: AbortSignal): Promise<void> {
    await super.begin(signal)
    await this.samplers.release() // of an evaluation that goes on while a checkpoint is loaded
  }

  protected override async ended(outcome: RunOutcome): Promise<void> {
    await this.samplers.release()
    await super.ended(outcome)
  }

  /**
   * Trains to the end. With a run folder, the models are in it then, as {@link saveModel} writes them.
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

  /** A finished run has its models in its folder. */
  protected override async complete(signal: AbortSignal): Promise<void> {
    const { folder } = this.session
    if (!folder) return
    await folder.check()
    await this.saveModel(folder.directory, { signal })
  }

  /**
   * Writes the agents' models to `agent_0/`, `agent_1/`, ... of a folder, and `manifest.json`. A run that finishes does so in its own
   * folder.
   */
  abstract saveModel(directory: string, options?: CallOptions & ExportOptions): Promise<void>

  protected async measure(signal: AbortSignal): Promise<MetricsRow | null> {
    if (!this.options.evalDataset) return null
    const { metrics } = await this.runEvaluation({ signal })
    return Object.fromEntries(Object.entries(metrics).map(([name, value]) => [`eval/${name}`, value]))
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
    ).catch((error: unknown) => {
      if (!(error instanceof NonFiniteError)) throw error
      const step = this.state?.step ?? 0
      throw new NonFiniteError(`evaluation after update ${step}, ${error.message}`, { ...error.details, step })
    })
  }
}
