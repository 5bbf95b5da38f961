import { join, resolve } from 'node:path'
import { CheckpointError, type CallOptions, type ExportOptions, type SamplingClient } from '@selfplay/engine'
import { batchCount, batches, type Batch } from '../dataset.js'
import { followSignal } from '../deadline.js'
import { ConfigError } from '../errors.js'
import { Grace } from '../grace.js'
import { Samplers, seatAgents, type Table } from '../magrpo/agents.js'
import { checkEvaluateArgs } from '../magrpo/check-evaluate.js'
import { checkRow, checkTask, refuseUnknown } from '../magrpo/check-task.js'
import type { ResolvedConfig } from '../magrpo/config.js'
import { evaluateRows, type Evaluation } from '../magrpo/evaluate.js'
import { RewardFailures } from '../magrpo/judge.js'
import type { Notice } from '../magrpo/notices.js'
import { saveAgents } from '../magrpo/save-model.js'
import { Session } from '../magrpo/session.js'
import type { TrainerState } from '../magrpo/state.js'
import type { EvaluateArgs, MAGRPOTrainerOptions, TrainResult } from '../magrpo/trainer.js'
import type { PromptRow } from '../magrpo/types.js'
import { policyOptim } from '../magrpo/update.js'
import { deriveSeed } from '@selfplay/env'
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

const never = new AbortController().signal

/**
 * Multi-agent direct preference optimisation, offline: joint answers are sampled once from the agents as they are, pairs of them
 * are chosen by their rewards, and each agent learns to prefer its half of the better answer, relative to a reference.
 *
 * The pairs of a run stand in `pairs.jsonl` of its folder; resuming is exact, and goes on with the same pairs.
 *
 * @throws ConfigError, DatasetError at construction for anything that cannot work.
 */
export class MADPOTrainer<Row extends PromptRow> {
  readonly config: ResolvedConfig
  readonly preference: PreferenceSettings
  readonly table: Table
  private readonly options: MADPOTrainerOptions<Row>
  private readonly samplers = new Samplers()
  private readonly session: Session
  private readonly pairsPath: string | null
  private state: TrainerState | null = null
  private held: readonly PreferencePair[] | null = null
  private consistent = true
  private running = false

  constructor(options: MADPOTrainerOptions<Row>) {
    const { agents, tokenizer, config = {}, run, trackers = [], onNotice = () => {} } = options
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
    const target = typeof run === 'string' ? { directory: run } : (run ?? null)
    this.pairsPath = target && join(resolve(target.directory), 'pairs.jsonl')
    this.session = new Session({
      run: target,
      trackers,
      config: common,
      table: this.table,
      extension: { trainer: 'MADPO', settings: { ...preference }, parts: [] },
      onNotice,
    })
  }

  /** The pairs of this run; null until they have been sampled or read. */
  get pairs(): readonly PreferencePair[] | null {
    return this.held
  }

  /** Trains to the end. @throws as of {@link MADPOTrainer.updates}. */
  async train(options: CallOptions = {}): Promise<TrainResult> {
    for await (const _update of this.updates(options)) {
      // The loop body is the caller's; train() has none.
    }
    const { step, seconds } = this.state!
    return { steps: step, seconds, checkpoint: this.session.checkpoint }
  }

  /**
   * Samples the pairs where there are none yet, then trains, giving out each finished update.
   *
   * @throws the signal's reason when aborted, after a checkpoint that resumes; DatasetError when no pair tells answers apart;
   *   SelfplayError subclasses for everything that goes wrong, naming the place.
   */
  async *updates({ signal = never }: CallOptions = {}): AsyncGenerator<MADPOUpdate, void, undefined> {
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
      if (this.state) await this.session.reopen()
      else this.state = await this.session.start()
      await this.samplers.release()
      await this.evaluateIfDue(false, own.signal)
      this.held ??= await this.findPairs(own.signal)
      yield* this.loop(this.held, own.signal)
      outcome = 'finished'
    } catch (error) {
      if (!signal.aborted) outcome = 'failed'
      throw error
    } finally {
      await this.stop(outcome)
      own.release()
    }
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
    await this.session.notice('pairs', 'info', `${pairs.length} pairs of ${candidates} joint answers${without}`)
    return pairs
  }

  private datasetOptions(): Parameters<typeof batchCount>[1] {
    const { numTrainEpochs: epochs, seed } = this.config
    return { epochs, batchSize: this.preference.pairsPerUpdate, order: 'shuffled', seed }
  }

  private async *loop(
    pairs: readonly PreferencePair[],
    signal: AbortSignal,
  ): AsyncGenerator<MADPOUpdate, void, undefined> {
    const { maxSteps, checkpointEvery } = this.config
    const all = batchCount(pairs, this.datasetOptions())!
    const totalSteps = Math.min(all, maxSteps ?? all)
    if (this.state!.step < totalSteps) {
      for await (const batch of batches(pairs, { ...this.datasetOptions(), skip: this.state!.cursor })) {
        signal.throwIfAborted()
        const last = this.state!.step + 1 === totalSteps
        const update = await this.update(batch, totalSteps, signal)
        if (!last && !signal.aborted) await this.evaluateIfDue(false, signal)
        if (checkpointEvery > 0 && update.step % checkpointEvery === 0) await this.session.save(this.state!)
        yield { ...update, notices: this.session.pending.splice(0) }
        if (last) break
      }
    }
    await this.evaluateIfDue(true, signal)
    await this.session.save(this.state!)
  }

  private async update(batch: Batch<PreferencePair>, totalSteps: number, signal: AbortSignal): Promise<MADPOUpdate> {
    const grace = new Grace(signal, this.config.abortGraceSeconds)
    const started = performance.now()
    const { config, table } = this
    const { step } = this.state!
    try {
      const pairs = batch.rows.map(({ row }) => row)
      const learnt = await learnPairs(table, pairs, {
        beta: this.preference.dpoBeta,
        optim: (policy) => policyOptim(policy, step, { config, table, totalSteps }),
        step,
        signal: grace.signal,
        onWeightsChange: () => {
          this.consistent = false
          grace.start()
        },
      })
      const seconds = (performance.now() - started) / 1000
      const metrics = { step: step + 1, epoch: batch.epoch, pairs: pairs.length, ...learnt, 'time/total': seconds }
      const { cursor, seconds: before } = this.state!
      this.state = { ...this.state!, step: step + 1, cursor: cursor + 1, seconds: before + seconds }
      this.consistent = true
      const last = step + 1 === totalSteps
      await this.session.update(metrics, [], last)
      return {
        step: step + 1,
        totalSteps,
        epoch: batch.epoch,
        loss: learnt['loss']!,
        accuracy: learnt['accuracy']!,
        metrics,
        seconds,
        elapsedSeconds: this.state.seconds,
        etaSeconds: seconds * (totalSteps - step - 1),
        isLogged: step === 0 || (step + 1) % config.loggingSteps === 0 || last,
        notices: [],
      }
    } finally {
      grace.end()
    }
  }

  private async evaluateIfDue(last: boolean, signal: AbortSignal): Promise<void> {
    const { step, evaluatedAt } = this.state!
    const { evalInterval } = this.config
    const due = step === 0 || last || (evalInterval > 0 && step % evalInterval === 0)
    if (!this.options.evalDataset || !due || evaluatedAt === step) return
    const { metrics } = await this.runEvaluation({ signal })
    const named = Object.entries(metrics).map(([name, value]) => [`eval/${name}`, value] as const)
    await this.session.evaluation({ step, ...Object.fromEntries(named) })
    this.state = { ...this.state!, evaluatedAt: step }
  }

  /** Lets the agents answer rows without training on them. @throws ConfigError when there are none. */
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

  private runEvaluation(args: EvaluateArgs<Row>): Promise<Evaluation> {
    const { config, table, samplers } = this
    const rows = args.rows ?? this.options.evalDataset?.slice(0, config.evalNumSamples) ?? []
    if (rows.length === 0) throw new ConfigError('evaluate: expected rows, or an evalDataset, got none')
    return evaluateRows(
      rows,
      { config, table, task: this.options, samplers },
      {
        generations: args.generations ?? config.evalGenerations,
        temperature: args.temperature ?? config.evalTemperature,
        seed: args.seed ?? deriveSeed(config.seed, 'evaluation'),
        failures: new RewardFailures(config.maxConsecutiveRewardFailures),
        signal: args.signal ?? never,
      },
    )
  }

  /** Writes the agents' models as `MAGRPOTrainer.saveModel` does. */
  saveModel(directory: string, options: CallOptions & ExportOptions = {}): Promise<void> {
    return saveAgents(this.table, directory, options)
  }

  private async stop(outcome: 'finished' | 'failed' | 'aborted'): Promise<void> {
    try {
      await this.samplers.release()
      const complete = this.state && this.held && this.consistent
      if (complete && outcome !== 'finished') {
        await this.session.save(this.state!).catch((error: unknown) => {
          if (outcome === 'aborted') throw error
          return this.session.notice('checkpoint', 'warning', `no checkpoint could be written: ${String(error)}`)
        })
      }
    } finally {
      this.running = false
      await this.session.close(outcome)
    }
  }
}
