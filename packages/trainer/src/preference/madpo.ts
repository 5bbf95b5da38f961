import { join } from 'node:path'
import { CheckpointError, type CallOptions, type ExportOptions, type SamplingClient } from '@selfplay/engine'
import { batchCount, batches, type Batch } from '../dataset.js'
import { ConfigError } from '../errors.js'
import { AgentLoop } from '../magrpo/agent-loop.js'
import { seatAgents, type Table } from '../magrpo/agents.js'
import { checkRow, checkTask, refuseUnknown } from '../magrpo/check-task.js'
import type { ResolvedConfig } from '../magrpo/config.js'
import { RewardFailures } from '../magrpo/judge.js'
import type { Notice } from '../magrpo/notices.js'
import { saveAgents } from '../magrpo/save-model.js'
import { agentSession, type AgentSession } from '../magrpo/session.js'
import type { MAGRPOTrainerOptions } from '../magrpo/trainer.js'
import type { PromptRow } from '../magrpo/types.js'
import { policyOptim } from '../magrpo/update.js'
import { collectPairs } from './collect.js'
import { resolveMadpo, type MADPOConfig, type PreferenceSettings } from './config.js'
import { learnPairs } from './learn-pairs.js'
import { readPairs, writePairs } from './pairs-file.js'
import type { PreferencePair } from './pairs.js'

export interface MADPOTrainerOptions<Row extends PromptRow> extends Omit<
  MAGRPOTrainerOptions<Row>,
  'config' | 'centralized' | 'externalTransition' | 'trainDataset'
> {
  /** Prompts to sample pairs for. */
  readonly trainDataset: readonly Row[]
  readonly config?: MADPOConfig
  /**
   * Policies that log-ratios are taken to, one per agent. Default: the agents' weights as they are when pairs are sampled, which
   * costs nothing: the samples bring their log-probs.
   */
  readonly references?: readonly (SamplingClient | null)[]
}

/** What a finished update was like. */
export interface MADPOUpdate {
  /** From 1. */
  readonly step: number
  readonly totalSteps: number
  readonly epoch: number
  /** Mean over agents; log 2 at the start. */
  readonly loss: number
  /** Share of the update's pairs whose winner has gained on its loser. */
  readonly accuracy: number
  /** The row of `metrics.jsonl`. */
  readonly metrics: Readonly<Record<string, number>>
  readonly seconds: number
  readonly elapsedSeconds: number
  readonly etaSeconds: number
  readonly isLogged: boolean
  readonly notices: readonly Notice[]
}

/**
 * Multi-agent direct preference optimisation, offline: joint answers are sampled once from the agents as they are, pairs of them
 * are chosen by their rewards, and each agent learns to prefer its half of the better answer, relative to a reference.
 *
 * The pairs of a run stand in `pairs.jsonl` of its folder; resuming is exact, and goes on with the same pairs.
 *
 * @throws ConfigError, DatasetError at construction for anything that cannot work.
 */
export class MADPOTrainer<Row extends PromptRow> extends AgentLoop<Row, MADPOUpdate> {
  readonly config: ResolvedConfig
  readonly preference: PreferenceSettings
  readonly table: Table
  protected readonly options: MADPOTrainerOptions<Row>
  protected readonly session: AgentSession
  private readonly pairsPath: string | null
  private held: readonly PreferencePair[] | null = null

  constructor(options: MADPOTrainerOptions<Row>) {
    super()
    const { agents, tokenizer, config = {}, run, trackers = [], onNotice } = options
    refuseUnknown(options)
    for (const name of ['centralized', 'externalTransition']) {
      if (name in options) throw new ConfigError(`${name} is not for MADPO: it trains on single-turn answers of agents`)
    }
    if (!Array.isArray(options.trainDataset)) {
      throw new ConfigError('trainDataset: expected an array, since pairs are sampled for all rows before training')
    }
    this.options = options
    const { common, preference } = resolveMadpo(config, agents.length)
    this.config = common
    this.preference = preference
    this.table = seatAgents(agents, common, tokenizer)
    const { config: _config, ...task } = options
    checkTask<Row>(task, common)
    options.trainDataset.forEach((row, index) => checkRow(row, index))
    this.session = agentSession({
      run,
      trackers,
      config: common,
      table: this.table,
      extension: { trainer: 'MADPO', settings: { ...preference }, parts: [] },
      onNotice,
    })
    this.pairsPath = this.session.folder && join(this.session.folder.directory, 'pairs.jsonl')
  }

  /** The pairs of this run; null until they have been sampled or read. */
  get pairs(): readonly PreferencePair[] | null {
    return this.held
  }

  protected override get resumable(): boolean {
    return this.held !== null
  }

  private async findPairs(signal: AbortSignal): Promise<readonly PreferencePair[]> {
    const saved = this.pairsPath && (await readPairs(this.pairsPath))
    if (saved) return saved
    if (this.state!.step > 0) {
      throw new CheckpointError(
        `${this.pairsPath} is gone: the run goes on with its pairs only, and they were sampled from weights that have changed ` +
          'since. Restore the file, or start a new run',
        { path: this.pairsPath },
      )
    }
    const { config, preference, samplers, options } = this
    const failures = new RewardFailures(config.maxConsecutiveRewardFailures, this.state!.failures)
    const started = performance.now()
    const { pairs, candidates, constantRows } = await collectPairs(options.trainDataset, {
      task: options,
      seats: this.table.seats,
      samplers,
      config,
      preference,
      references: options.references ?? this.table.seats.map(() => null),
      failures,
      signal,
    })
    if (this.pairsPath) await writePairs(this.pairsPath, pairs)
    const { succeeded, consecutive, total, first } = failures
    this.state = {
      ...this.state!,
      envStep: candidates,
      failures: { succeeded, consecutive, total, first },
      seconds: this.state!.seconds + (performance.now() - started) / 1000,
    }
    const without = constantRows > 0 ? `; ${constantRows} rows have none: all their rewards are equal` : ''
    // Resuming compares settings with those of a checkpoint: without one, other settings could take these pairs for theirs.
    await this.session.save(this.state)
    const message = `${pairs.length} pairs of ${candidates} joint answers${without}`
    await this.session.notice({ code: 'pairs', level: 'info', message })
    return pairs
  }

  private datasetOptions(): Parameters<typeof batchCount>[1] {
    const { numTrainEpochs: epochs, seed } = this.config
    return { epochs, batchSize: this.preference.pairsPerUpdate, order: 'shuffled', seed }
  }

  /** Samples the pairs where there are none yet, then trains on them. */
  protected override async *loop(signal: AbortSignal): AsyncGenerator<MADPOUpdate, void, undefined> {
    const pairs = (this.held ??= await this.findPairs(signal))
    const { maxSteps } = this.config
    const all = batchCount(pairs, this.datasetOptions())!
    const totalSteps = Math.min(all, maxSteps ?? all)
    if (this.state!.step < totalSteps) {
      for await (const batch of batches(pairs, { ...this.datasetOptions(), skip: this.state!.cursor })) {
        signal.throwIfAborted()
        const last = this.state!.step + 1 === totalSteps
        const update = await this.update(batch, totalSteps, signal)
        if (!last && !signal.aborted) await this.evaluateIfDue(false, signal)
        await this.endUpdate()
        yield { ...update, notices: this.session.pending.splice(0) }
        if (last) break
      }
    }
  }

  private async update(batch: Batch<PreferencePair>, totalSteps: number, signal: AbortSignal): Promise<MADPOUpdate> {
    const started = performance.now()
    const { config, table } = this
    const { step } = this.state!
    const { metrics, seconds } = await this.change(signal, async ({ trainSignal, onWeightsChange }) => {
      const pairs = batch.rows.map(({ row }) => row)
      const learnt = await learnPairs(table, pairs, {
        beta: this.preference.dpoBeta,
        optim: (policy) => policyOptim(policy, step, { config, table, totalSteps }),
        step,
        signal: trainSignal,
        onWeightsChange,
      })
      const seconds = (performance.now() - started) / 1000
      const { cursor, seconds: before } = this.state!
      const counts = { step: step + 1, epoch: batch.epoch, pairs: pairs.length }
      const row: Readonly<Record<string, number>> = { ...counts, ...learnt, 'time/total': seconds }
      return {
        state: { ...this.state!, step: step + 1, cursor: cursor + 1, seconds: before + seconds },
        metrics: row,
        seconds,
      }
    })
    const isLogged = step === 0 || (step + 1) % config.loggingSteps === 0 || step + 1 === totalSteps
    await this.session.update(metrics, () => [], isLogged)
    return {
      step: step + 1,
      totalSteps,
      epoch: batch.epoch,
      loss: metrics['loss']!,
      accuracy: metrics['accuracy']!,
      metrics,
      seconds,
      elapsedSeconds: this.state!.seconds,
      etaSeconds: seconds * (totalSteps - step - 1),
      isLogged,
      notices: [],
    }
  }

  /** Writes the agents' models as `MAGRPOTrainer.saveModel` does. */
  override saveModel(directory: string, options: CallOptions & ExportOptions = {}): Promise<void> {
    return saveAgents(this.table, directory, options)
  }
}
