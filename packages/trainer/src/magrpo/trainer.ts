import type { CallOptions, ExportOptions, SamplingClient, TrainingClient } from '@selfplay/engine'
import { batchCount, batches, type Batch, type Dataset } from '../dataset.js'
import { ConfigError } from '../errors.js'
import { References } from '../run/references.js'
import type { RunTarget } from '../run/resume.js'
import type { Tracker } from '../track/tracker.js'
import { AgentLoop } from './agent-loop.js'
import { seatAgents, type Agent, type Seat, type Table } from './agents.js'
import type { AnalysedNode } from './analyse.js'
import { checkRow, checkTask } from './check-task.js'
import { resolveConfig, type MAGRPOConfig, type ResolvedConfig } from './config.js'
import type { Extension } from './extension.js'
import { addToTally, noTally, nothingLearntNotice, type Notice, type Tally } from './notices.js'
import { toRecord } from './record.js'
import { saveAgents } from './save-model.js'
import { agentSession, partName, type AgentSession } from './session.js'
import type { PromptRow, Task, TextCodec } from './types.js'
import { runUpdate } from './update.js'

export interface MAGRPOTrainerOptions<Row extends PromptRow> extends Task<Row> {
  /** Who plays. The same client twice is one policy. */
  readonly agents: readonly Agent[]
  /** For agents that carry no tokenizer: one for all, or one per agent. */
  readonly tokenizer?: TextCodec | readonly TextCodec[]
  readonly trainDataset: Dataset<Row>
  readonly evalDataset?: readonly Row[]
  readonly config?: MAGRPOConfig
  /** A folder for metrics, rollouts, checkpoints and, when the run has finished, the models. Default: nothing is written. */
  readonly run?: string | RunTarget
  readonly trackers?: readonly Tracker[]
  /**
   * Policies that `referenceKl` stays near, one per agent; null: no penalty for this one. Default: the agents as they are when the
   * run begins, kept with the run. Refused without `referenceKl`.
   */
  readonly references?: readonly (SamplingClient | null)[]
  /** Told what a person should know. Default: a line each on stderr; `() => {}` silences it. */
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

/**
 * Trains any number of agents on a joint reward by group-relative policy gradients (MAGRPO: Liu et al. 2025), over one or
 * several turns. One agent is GRPO.
 *
 * @throws ConfigError, DatasetError at construction for anything that cannot work.
 */
export class MAGRPOTrainer<Row extends PromptRow> extends AgentLoop<Row, MAGRPOUpdate> {
  readonly config: ResolvedConfig
  readonly table: Table
  protected readonly options: MAGRPOTrainerOptions<Row>
  private readonly extension: Extension | null
  protected readonly session: AgentSession
  protected override readonly references: References
  private recentSeconds: number[] = []
  /** Of this process's part of the run. */
  private tally: Tally = noTally

  /** @param extension for relatives of MAGRPO; not for users. */
  constructor(options: MAGRPOTrainerOptions<Row>, extension?: (table: Table) => Extension) {
    super()
    const { agents, tokenizer, config = {}, run, trackers = [], onNotice } = options
    this.options = options
    this.config = resolveConfig(config, agents.length)
    this.table = seatAgents(agents, this.config, tokenizer)
    checkTask(options, this.config)
    this.extension = extension?.(this.table) ?? null
    if (options.references && !this.config.referenceKl) {
      throw new ConfigError(
        'references are what config.referenceKl compares with, but it is off: set it, or leave references out',
      )
    }
    const kept = this.config.referenceKl && !options.references ? this.table.policies : []
    this.references = new References(
      kept
        .filter(({ trained }) => trained)
        .map((policy) => ({ client: policy.client as TrainingClient, path: `reference/${partName(policy)}` })),
      { penalty: 'referenceKl', option: 'references' },
    )
    this.session = agentSession({
      run,
      trackers,
      config: this.config,
      table: this.table,
      extension: this.extension,
      onNotice,
      beforeLoad: () => this.references.restore(this.session.folder!),
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

  /** What each agent is compared with, [agent]. */
  private referencesNow(): readonly (SamplingClient | null)[] {
    const own = ({ policy }: Seat) => (policy?.trained ? this.references.of(policy.client!) : null)
    return this.options.references ?? this.table.seats.map(own)
  }

  protected override async *loop(signal: AbortSignal): AsyncGenerator<MAGRPOUpdate, void, undefined> {
    const { totalSteps } = this
    const { maxSteps } = this.config
    const { cursor } = this.state!
    if (maxSteps === null || this.state!.step < maxSteps) {
      const source = batches(this.options.trainDataset, { ...this.datasetOptions, skip: cursor, signal })
      for await (const batch of source) {
        signal.throwIfAborted()
        for (const { row, index } of batch.rows) checkRow(row, index)
        const last = batch.last || this.state!.step + 1 === maxSteps
        const whole = { ...batch, endOfEpoch: batch.endOfEpoch || last }
        const update = await this.update(whole, last, totalSteps, signal)
        if (!last && !signal.aborted) await this.evaluateIfDue(false, signal)
        if (last) await this.tellTally()
        await this.endUpdate()
        yield { ...update, notices: this.session.pending.splice(0) }
        if (last) break
      }
    }
  }

  private async update(
    batch: Batch<Row>,
    last: boolean,
    totalSteps: number | null,
    signal: AbortSignal,
  ): Promise<MAGRPOUpdate> {
    const { metrics, nodes, notices } = await this.change(signal, (signals) =>
      runUpdate(batch, this.state!, {
        config: this.config,
        table: this.table,
        task: this.options,
        samplers: this.samplers,
        references: this.referencesNow(),
        extension: this.extension,
        totalSteps,
        signal,
        ...signals,
      }),
    )
    this.tally = addToTally(this.tally, nodes, metrics)
    const update = this.describe(metrics, nodes, totalSteps, last)
    const { step, epoch, isLogged } = update
    await this.session.update(metrics, () => nodes.map((node) => toRecord(node, { step, epoch })), isLogged)
    for (const notice of notices) await this.session.notice(notice, step)
    return update
  }

  private async tellTally(): Promise<void> {
    const { step } = this.state!
    const notice = nothingLearntNotice(this.tally, step)
    if (notice) await this.session.notice(notice, step)
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

  override saveModel(directory: string, options: CallOptions & ExportOptions = {}): Promise<void> {
    return saveAgents(this.table, directory, options, this.extension?.parts)
  }
}
