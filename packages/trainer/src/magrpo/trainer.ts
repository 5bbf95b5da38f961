import type { CallOptions, ExportOptions, SamplingClient, TrainingClient } from '@selfplay/engine'
import { batchCount, batches, type Batch, type Dataset } from '../dataset.js'
import { CollapseError } from '../errors.js'
import type { RunTarget } from '../run/resume.js'
import type { Tracker } from '../track/tracker.js'
import { AgentLoop } from './agent-loop.js'
import { seatAgents, type Agent, type Table } from './agents.js'
import type { AnalysedNode } from './analyse.js'
import { checkRow, checkTask } from './check-task.js'
import { resolveConfig, type MAGRPOConfig, type ResolvedConfig } from './config.js'
import type { Extension } from './extension.js'
import type { Notice } from './notices.js'
import { saveAgents } from './save-model.js'
import { Session } from './session.js'
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
  protected readonly session: Session
  private references: readonly (SamplingClient | null)[] | null = null
  private readonly ownReferences: SamplingClient[] = []
  private recentSeconds: number[] = []

  /** @param extension for relatives of MAGRPO; not for users. */
  constructor(options: MAGRPOTrainerOptions<Row>, extension?: (table: Table) => Extension) {
    super()
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

  protected override async begin(): Promise<void> {
    this.references ??= await this.makeReferences()
  }

  protected override async finished(): Promise<void> {
    await Promise.all(this.ownReferences.splice(0).map((reference) => reference.dispose()))
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
        await this.afterUpdate(update, signal, last)
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
    const { metrics, nodes, notices } = await this.frame.change(
      signal,
      this.config.abortGraceSeconds,
      async (signals) => {
        const done = await runUpdate(batch, this.state!, {
          config: this.config,
          table: this.table,
          task: this.options,
          samplers: this.samplers,
          references: this.references!,
          extension: this.extension,
          totalSteps,
          signal,
          ...signals,
        })
        this.state = done.state
        return done
      },
    )
    await this.session.update(metrics, nodes, last)
    for (const notice of notices) await this.session.notice(notice, this.state!.step)
    return this.describe(metrics, nodes, totalSteps, last)
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

  /** Writes the agents' models to `agent_0/`, `agent_1/`, ... of a folder, and `manifest.json`. */
  saveModel(directory: string, options: CallOptions & ExportOptions = {}): Promise<void> {
    return saveAgents(this.table, directory, options, this.extension?.parts)
  }
}
