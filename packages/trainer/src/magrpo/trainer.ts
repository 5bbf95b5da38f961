import type { CallOptions, ExportOptions, SamplingClient, TrainingClient } from '@selfplay/engine'
import { batchCount, batches, type Batch, type Dataset } from '../dataset.js'
import { CollapseError, ConfigError } from '../errors.js'
import { followSignal } from '../deadline.js'
import { deriveSeed } from '@selfplay/env'
import type { Tracker } from '../track/tracker.js'
import { Grace } from '../grace.js'
import { Samplers, seatAgents, type Agent, type Table } from './agents.js'
import type { AnalysedNode } from './analyse.js'
import { resolveConfig, type MAGRPOConfig, type ResolvedConfig } from './config.js'
import { evaluateRows, type Evaluation } from './evaluate.js'
import type { Extension } from './extension.js'
import { RewardFailures } from './judge.js'
import type { Notice } from './notices.js'
import { saveAgents } from './save-model.js'
import type { RunTarget } from '../run/resume.js'
import { Session } from './session.js'
import type { TrainerState } from './state.js'
import type { PromptRow, Task, TextCodec } from './types.js'
import { runUpdate } from './update.js'
import { checkEvaluateArgs } from './check-evaluate.js'
import { checkRow, checkTask } from './check-task.js'

export interface MAGRPOTrainerOptions<Row extends PromptRow> extends Task<Row> {
  /** Who plays. The same client twice is one policy. */
  readonly agents: readonly Agent[]
  /** For agents that carry no tokenizer: one for all, or one per agent. */
  readonly tokenizer?: TextCodec | readonly TextCodec[]
  readonly trainDataset: Dataset<Row>
  readonly evalDataset?: readonly Row[]
  readonly config?: MAGRPOConfig
  /** A folder for metrics, rollouts and checkpoints. Default: nothing is written. */
  readonly run?: string | RunTarget
  readonly trackers?: readonly Tracker[]
  /** Policies that `referenceKl` stays near, one per agent. Default: the agents' weights as they are when the trainer first starts. */
  readonly references?: readonly (SamplingClient | null)[]
  readonly onNotice?: (notice: Notice) => void
}

/** What a finished update was like. */
export interface MAGRPOUpdate {
  /** From 1. */
  readonly step: number
  /** Null while an async data set keeps its length to itself. */
  readonly totalSteps: number | null
  readonly epoch: number
  /** Mean reward of the first turn's joint answers, as the reward function gave them; NaN when all were left out. */
  readonly rewardMean: number
  /** The same per turn, [turn]. */
  readonly turnRewardMeans: readonly number[]
  /** The row of `metrics.jsonl`. */
  readonly metrics: Readonly<Record<string, number>>
  readonly sampledTokens: number
  readonly seconds: number
  /** Over all sessions of the run. */
  readonly elapsedSeconds: number
  readonly etaSeconds: number | null
  /** The terminal and trackers show every `loggingSteps`-th update: this is one of them. */
  readonly isLogged: boolean
  readonly notices: readonly Notice[]
  /** Every node with its texts, rewards, returns and advantages. */
  readonly nodes: readonly AnalysedNode[]
}

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

/**
 * Trains any number of agents on a joint reward by group-relative policy gradients (MAGRPO: Liu et al. 2025), over one or
 * several turns. One agent is GRPO.
 *
 * @throws ConfigError, DatasetError at construction for anything that cannot work.
 */
export class MAGRPOTrainer<Row extends PromptRow> {
  readonly config: ResolvedConfig
  readonly table: Table
  private readonly options: MAGRPOTrainerOptions<Row>
  private readonly extension: Extension | null
  private readonly samplers = new Samplers()
  private readonly session: Session
  private references: readonly (SamplingClient | null)[] | null = null
  private readonly ownReferences: SamplingClient[] = []
  private state: TrainerState | null = null
  /** False from the first changed weight of an update to its end. */
  private consistent = true
  private running = false
  private recentSeconds: number[] = []

  /** @param extension for relatives of MAGRPO; not for users. */
  constructor(options: MAGRPOTrainerOptions<Row>, extension?: (table: Table) => Extension) {
    const { agents, tokenizer, config = {}, run, trackers = [], onNotice = () => {} } = options
    this.options = options
    this.config = resolveConfig(config, agents.length)
    this.table = seatAgents(agents, this.config, tokenizer)
    checkTask(options, this.config)
    this.extension = extension?.(this.table) ?? null
    this.session = new Session({
      run: typeof run === 'string' ? { directory: run } : (run ?? null),
      trackers,
      config: this.config,
      table: this.table,
      extension: this.extension,
      onNotice,
    })
  }

  /** Updates of the whole run; null: unknown. */
  get totalSteps(): number | null {
    const { maxSteps } = this.config
    const inEpochs = batchCount(this.options.trainDataset, this.datasetOptions)
    return inEpochs === null ? maxSteps : Math.min(inEpochs, maxSteps ?? inEpochs)
  }

  private get datasetOptions() {
    const { numTrainEpochs: epochs, promptsPerUpdate: batchSize, seed } = this.config
    const order = this.config.order ?? (Array.isArray(this.options.trainDataset) ? 'shuffled' : 'fixed')
    return { epochs, batchSize, order, seed } as const
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
  async *updates({ signal = never }: CallOptions = {}): AsyncGenerator<MAGRPOUpdate, void, undefined> {
    if (this.running) throw new ConfigError('this trainer is already training: wait for it, or make a second one')
    if (!this.consistent) {
      throw new ConfigError(
        'this trainer stopped in the middle of an update: make a new one that resumes from a checkpoint',
      )
    }
    this.running = true
    const own = followSignal(signal)
    let outcome: 'finished' | 'failed' | 'aborted' = 'aborted'
    try {
      signal.throwIfAborted()
      await this.start()
      yield* this.loop(own.signal)
      outcome = 'finished'
    } catch (error) {
      if (!signal.aborted) outcome = 'failed'
      throw error
    } finally {
      await this.stop(outcome)
      own.release()
    }
  }

  private async start(): Promise<void> {
    this.references ??= await this.makeReferences()
    if (this.state) await this.session.reopen()
    else this.state = await this.session.start()
    await this.samplers.release()
  }

  /** Frozen copies of the policies, taken before a checkpoint is loaded: the start of the run, not of the session. */
  private async makeReferences(): Promise<(SamplingClient | null)[]> {
    const { seats, policies } = this.table
    if (!this.config.referenceKl) return seats.map(() => null)
    if (this.options.references) return [...this.options.references]
    const copies = new Map<number, SamplingClient>()
    for (const { index, client, trained } of policies) {
      if (!trained) continue
      const copy = await (client as TrainingClient).snapshot()
      this.ownReferences.push(copy)
      copies.set(index, copy)
    }
    return seats.map(({ policy }) => (policy ? (copies.get(policy.index) ?? null) : null))
  }

  private async *loop(signal: AbortSignal): AsyncGenerator<MAGRPOUpdate, void, undefined> {
    const { totalSteps } = this
    const { maxSteps } = this.config
    const { cursor } = this.state!
    await this.evaluateIfDue(false, signal)
    if (maxSteps === null || this.state!.step < maxSteps) {
      const source = batches(this.options.trainDataset, { ...this.datasetOptions, skip: cursor, signal })
      for await (const batch of source) {
        signal.throwIfAborted()
        for (const { row, index } of batch.rows) checkRow(row, index)
        const last = batch.last || this.state!.step + 1 === maxSteps
        const whole = { ...batch, endOfEpoch: batch.endOfEpoch || last }
        const update = await this.update(whole, last, totalSteps, signal)
        await this.afterUpdate(update, signal, last)
        yield { ...update, notices: this.session.pending.splice(0) }
        if (last) break
      }
    }
    await this.evaluateIfDue(true, signal)
    await this.session.save(this.state!)
  }

  private async update(
    batch: Batch<Row>,
    last: boolean,
    totalSteps: number | null,
    signal: AbortSignal,
  ): Promise<MAGRPOUpdate> {
    const grace = new Grace(signal, this.config.abortGraceSeconds)
    try {
      const { state, metrics, nodes, notices } = await runUpdate(batch, this.state!, {
        config: this.config,
        table: this.table,
        task: this.options,
        samplers: this.samplers,
        references: this.references!,
        extension: this.extension,
        totalSteps,
        signal,
        trainSignal: grace.signal,
        onWeightsChange: () => {
          this.consistent = false
          grace.start()
        },
      })
      this.state = state
      this.consistent = true
      await this.session.update(metrics, nodes, last)
      for (const { code, level, message } of notices) await this.session.notice(code, level, message, state.step)
      return this.describe(metrics, nodes, totalSteps, last)
    } finally {
      grace.end()
    }
  }

  private describe(
    metrics: Readonly<Record<string, number>>,
    nodes: readonly AnalysedNode[],
    totalSteps: number | null,
    last: boolean,
  ): MAGRPOUpdate {
    const { step, seconds: elapsedSeconds } = this.state!
    const seconds = metrics['time/total']!
    this.recentSeconds = [...this.recentSeconds, seconds].slice(-20)
    const pace = this.recentSeconds.reduce((sum, value) => sum + value, 0) / this.recentSeconds.length
    const turnRewardMeans = Array.from(
      { length: this.config.numTurns },
      (_, t) => metrics[`turn_${t + 1}/raw_reward_mean`] ?? Number.NaN,
    )
    return {
      step,
      totalSteps,
      epoch: metrics['epoch']!,
      rewardMean: turnRewardMeans[0]!,
      turnRewardMeans,
      metrics,
      sampledTokens: metrics['perf/sampled_tokens']!,
      seconds,
      elapsedSeconds,
      etaSeconds: totalSteps === null ? null : pace * (totalSteps - step),
      isLogged: step === 1 || step % this.config.loggingSteps === 0 || last,
      notices: [],
      nodes,
    }
  }

  private async afterUpdate({ step }: MAGRPOUpdate, signal: AbortSignal, last: boolean): Promise<void> {
    const { checkpointEvery, collapse } = this.config
    const collapsed = collapse?.stop === true && this.state!.collapse.collapsed
    if (!last && !signal.aborted) await this.evaluateIfDue(false, signal)
    if (checkpointEvery > 0 && step % checkpointEvery === 0) {
      this.rememberBest()
      await this.session.save(this.state!)
    }
    if (!collapsed) return
    const { peak } = this.state!.collapse
    throw new CollapseError(
      `update ${step}: the mean return has collapsed from its peak of ${peak!.value} at update ${peak!.step}; ` +
        'collapse.stop ends the run. The best checkpoint is kept',
      { step, peak: peak!.value, peakStep: peak!.step, best: this.state!.best?.step ?? null },
    )
  }

  /** Notes that the checkpoint to be written now is the best so far, if it is. */
  private rememberBest(): void {
    const { recent } = this.state!.collapse
    if (!this.config.collapse || recent.length === 0) return
    const value = recent.reduce((sum, x) => sum + x, 0) / recent.length
    const { best, step } = this.state!
    if (best === null || value > best.value) this.state = { ...this.state!, best: { step, value } }
  }

  /** Evaluates when the schedule says so: before the first update, every `evalInterval`, and after the last. */
  private async evaluateIfDue(last: boolean, signal: AbortSignal): Promise<void> {
    const { evalDataset } = this.options
    const { evalInterval } = this.config
    const { step, evaluatedAt } = this.state!
    const due = step === 0 || last || (evalInterval > 0 && step % evalInterval === 0)
    if (!evalDataset || !due || evaluatedAt === step) return
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
    if (this.running) throw new ConfigError('evaluate: wait until the training loop has ended, or set evalInterval')
    const own = followSignal(args.signal ?? never)
    try {
      return await this.runEvaluation({ ...args, signal: own.signal })
    } finally {
      await this.samplers.release()
      own.release()
    }
  }

  private async runEvaluation(args: EvaluateArgs<Row>): Promise<Evaluation> {
    const { config, table, samplers } = this
    const rows = args.rows ?? this.options.evalDataset?.slice(0, config.evalNumSamples) ?? []
    if (rows.length === 0) throw new ConfigError('evaluate: expected rows, or an evalDataset, got none')
    const { succeeded } = this.state?.failures ?? { succeeded: 0 }
    return evaluateRows(
      rows,
      { config, table, task: this.options, samplers },
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

  /** Writes the agents' models to `agent_0/`, `agent_1/`, ... of a folder, and `manifest.json`. */
  saveModel(directory: string, options: CallOptions & ExportOptions = {}): Promise<void> {
    return saveAgents(this.table, directory, options, this.extension?.parts)
  }

  private async tellOfGivenUp(): Promise<void> {
    const from = this.session.checkpoint ?? 'the start: there is no checkpoint yet'
    const message = `update ${this.state!.step + 1} was given up after some weights had changed: resuming goes on from ${from}`
    await this.session.notice('checkpoint', 'warning', message)
  }

  private async stop(outcome: 'finished' | 'failed' | 'aborted'): Promise<void> {
    try {
      await this.samplers.release()
      if (!this.consistent) await this.tellOfGivenUp()
      if (this.state && this.consistent && outcome !== 'finished') {
        await this.session.save(this.state).catch((error: unknown) => {
          if (outcome === 'aborted') throw error
          return this.session.notice('checkpoint', 'warning', `no checkpoint could be written: ${String(error)}`)
        })
      }
      if (outcome === 'finished')
        await Promise.all(this.ownReferences.splice(0).map((reference) => reference.dispose()))
    } finally {
      this.running = false
      await this.session.close(outcome)
    }
  }
}
