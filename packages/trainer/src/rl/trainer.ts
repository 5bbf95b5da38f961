import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { CheckpointError, type CallOptions, type SamplingClient } from '@selfplay/engine'
import type { RLDataset } from '@selfplay/env'
import { followSignal } from '../deadline.js'
import { CollapseError, ConfigError } from '../errors.js'
import { evaluationDue, runEvaluators } from '../evaluate/evaluator.js'
import { Grace } from '../grace.js'
import { exists } from '../run/files.js'
import { LoopSession, type RunNotice } from '../run/loop-session.js'
import type { CreditedGroup } from './assemble.js'
import { FREE_RL_SETTINGS } from './config.js'
import { rlNotices } from './notices.js'
import { resolveDataset, resolveRLConfig, type RLConfig, type ResolvedRLConfig } from './options.js'
import { toGroupRecord, type Decode } from './record.js'
import { writeReport } from './session-report.js'
import { pacedSource, synchronousSource, type GroupSource, type SampledBatch } from './sources.js'
import { initialRLState, rlStateSchema, type RLState } from './state.js'
import { runRLUpdate } from './update.js'

/** What a finished update was like. */
export interface RLUpdate {
  /** From 1. */
  readonly step: number
  readonly totalSteps: number
  /** Mean reward of an episode; NaN when no group had a result. */
  readonly rewardMean: number
  /** The row of `metrics.jsonl`. */
  readonly metrics: Readonly<Record<string, number>>
  readonly groups: readonly CreditedGroup[]
  readonly notices: readonly RunNotice[]
}

export interface RLResult {
  /** Updates finished. */
  readonly steps: number
  /** Seconds spent in updates, over all sessions of the run. */
  readonly seconds: number
  /** The newest checkpoint, when there is a run folder. */
  readonly checkpoint: string | null
  /** The row of the last update; null when there was none in this session. */
  readonly metrics: Readonly<Record<string, number>> | null
}

const never = new AbortController().signal
const REFERENCE = 'reference'

/**
 * Trains a policy on groups of episodes whose rewards are compared within each group.
 *
 * @throws ConfigError before anything happens, for options that cannot be used; the signal's reason when aborted, after a
 *   checkpoint that resumes; SelfplayError subclasses naming the place for everything else.
 */
export const trainRL = (config: RLConfig, options: CallOptions = {}): Promise<RLResult> =>
  new RLTrainer(config).train(options)

/** The loop behind {@link trainRL}, for those who want to see each update. */
export class RLTrainer {
  readonly config: ResolvedRLConfig
  private readonly session: LoopSession<RLState>
  private readonly decode: Decode | undefined
  private dataset: RLDataset | null = null
  private state: RLState | null = null
  private reference: SamplingClient | null = null
  private newest: RLUpdate | null = null
  private running = false
  /** False from the first changed weight of an update to its end. */
  private consistent = true

  /** @throws ConfigError */
  constructor(config: RLConfig) {
    this.config = resolveRLConfig(config)
    const { settings, client, run, trackers, renderer, tokenizer, onNotice = () => {} } = this.config
    this.decode = tokenizer && ((ids) => tokenizer.decode(ids))
    this.session = new LoopSession({
      kind: 'rl',
      run,
      client,
      trackers,
      settings: { ...settings, renderer: renderer?.name ?? null },
      free: FREE_RL_SETTINGS,
      stateSchema: rlStateSchema,
      initialState: () => initialRLState(client.step),
      keepCheckpoints: settings.keepCheckpoints,
      onNotice,
      beforeLoad: () => this.restoreReference(),
    })
  }

  /** Trains to the end. See {@link trainRL}. */
  async train(options: CallOptions = {}): Promise<RLResult> {
    for await (const _update of this.updates(options)) {
      // The loop body is the caller's; train() has none.
    }
    const { step, seconds } = this.state!
    return { steps: step, seconds, checkpoint: this.session.checkpoint, metrics: this.newest?.metrics ?? null }
  }

  /** Trains, giving out each finished update. Leaving the loop early keeps what was learnt and writes a checkpoint. */
  async *updates({ signal = never }: CallOptions = {}): AsyncGenerator<RLUpdate, void, undefined> {
    if (this.running) throw new ConfigError('this run is already training: wait for it, or make a second one')
    if (!this.consistent)
      throw new ConfigError(
        'this run stopped in the middle of an update: make a new one that resumes from a checkpoint',
      )
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
      own.release()
      await this.stop(outcome)
    }
  }

  private async start(): Promise<void> {
    this.dataset ??= await resolveDataset(this.config)
    if (this.state) return this.session.reopen()
    const { state, resumed } = await this.session.start()
    this.state = state
    if (!resumed) await this.keepReference()
  }

  /** The policy at the start of the run, as what the penalty compares with; saved with the run, so that resuming finds it. */
  private async keepReference(): Promise<void> {
    const { settings, reference, client } = this.config
    if (!settings.klPenalty || reference) return
    this.reference = await client.snapshot()
    const directory = this.referenceFolder
    if (directory === null) return
    await rm(directory, { recursive: true, force: true })
    await client.saveState(directory)
  }

  /** Never the policy as it is now, nor the model that the client was loaded from: the start of the run. */
  private async restoreReference(): Promise<void> {
    const { settings, reference, client } = this.config
    if (!settings.klPenalty || reference) return
    const directory = this.referenceFolder!
    if (!(await exists(directory)))
      throw new CheckpointError(
        `${directory}, the policy that klPenalty stays near, is missing: restore it, or pass reference`,
        { directory },
      )
    await client.loadState(directory)
    this.reference = await client.snapshot()
  }

  private get referenceFolder(): string | null {
    return this.session.folder && join(this.session.folder.directory, REFERENCE)
  }

  /** Updates of the whole run. */
  get totalSteps(): number {
    return this.config.settings.steps ?? this.dataset?.length ?? Number.NaN
  }

  private async *loop(signal: AbortSignal): AsyncGenerator<RLUpdate, void, undefined> {
    await this.evaluateIfDue(false, signal)
    const source = await this.openSource(signal)
    try {
      while (this.state!.step < this.totalSteps) {
        signal.throwIfAborted()
        const started = performance.now()
        const batch = await source.next(this.state!.step, signal)
        const update = await this.update(batch, started, signal)
        const last = update.step === this.totalSteps
        await this.afterUpdate(update, last, signal)
        if (!last) await source.stepped(update.step, signal)
        this.newest = { ...update, notices: this.session.pending.splice(0) }
        this.config.onUpdate?.(this.newest)
        yield this.newest
      }
    } finally {
      await source.close()
    }
    await this.evaluateIfDue(true, signal)
    await this.session.save(this.state!, this.protectedSteps)
  }

  private openSource(signal: AbortSignal): Promise<GroupSource> {
    const { client, settings, filter } = this.config
    const options = { client, dataset: this.dataset!, settings, filter }
    if (settings.offPolicy === null) return Promise.resolve(synchronousSource(options))
    return pacedSource(options, { first: this.state!.step, total: this.totalSteps }, signal)
  }

  private async update(batch: SampledBatch, started: number, signal: AbortSignal): Promise<Omit<RLUpdate, 'notices'>> {
    const { client, settings } = this.config
    const before = this.state!
    const grace = new Grace(signal, settings.abortGraceSeconds)
    try {
      const done = await runRLUpdate(batch.groups, before, {
        client,
        settings,
        reference: this.config.reference ?? this.reference,
        totalSteps: this.totalSteps,
        batches: this.dataset!.length,
        signal,
        trainSignal: grace.signal,
        onWeightsChange: () => {
          this.consistent = false
          grace.start()
        },
      })
      const seconds = (performance.now() - started) / 1000
      const metrics = { ...done.metrics, ...batch.times, ...performanceOf(done.metrics, seconds) }
      const { notices, told } = rlNotices({ before, after: done.state, metrics, groups: done.groups })
      this.state = { ...done.state, told, seconds: before.seconds + seconds }
      this.consistent = true
      const { step } = this.state
      await this.session.update(metrics, () => done.groups.map((group) => toGroupRecord(group, step, this.decode)))
      for (const notice of notices) await this.session.notice(notice, step)
      const rewardMean = metrics['env/all/reward/total'] ?? Number.NaN
      return { step, totalSteps: this.totalSteps, rewardMean, metrics, groups: done.groups }
    } finally {
      grace.end()
    }
  }

  private async afterUpdate(update: Omit<RLUpdate, 'notices'>, last: boolean, signal: AbortSignal): Promise<void> {
    const { checkpointEvery, reportEvery, groupsInReport, collapse } = this.config.settings
    const { step, groups } = update
    if (!last && !signal.aborted) await this.evaluateIfDue(false, signal)
    const { folder } = this.session
    if (folder && reportEvery > 0 && (last || step % reportEvery === 0))
      await writeReport(folder, step, groups.slice(0, groupsInReport), this.decode)
    if (checkpointEvery > 0 && step % checkpointEvery === 0) {
      this.rememberBest()
      await this.session.save(this.state!, this.protectedSteps)
    }
    if (collapse?.stop !== true || !this.state!.collapse.collapsed) return
    const { peak } = this.state!.collapse
    throw new CollapseError(
      `update ${step}: the mean reward has collapsed from its peak of ${peak!.value} at update ${peak!.step}; ` +
        'collapse.stop ends the run. The best checkpoint is kept',
      { step, peak: peak!.value, peakStep: peak!.step, best: this.state!.best?.step ?? null },
    )
  }

  /** Notes that the checkpoint to be written now is the best so far, if it is. */
  private rememberBest(): void {
    const { best, step, collapse } = this.state!
    if (!this.config.settings.collapse || collapse.recent.length === 0) return
    const value = collapse.recent.reduce((sum, x) => sum + x, 0) / collapse.recent.length
    if (best === null || value > best.value) this.state = { ...this.state!, best: { step, value } }
  }

  private get protectedSteps(): number[] {
    return this.state?.best ? [this.state.best.step] : []
  }

  private async evaluateIfDue(last: boolean, signal: AbortSignal): Promise<void> {
    const { evaluators, settings, client } = this.config
    const { step } = this.state!
    if (evaluators.length === 0 || !evaluationDue(this.state!, { every: settings.evalEvery, last })) return
    const metrics = await runEvaluators(evaluators, client, { step, seed: settings.seed, signal })
    await this.session.evaluation({ step, ...metrics })
    this.state = { ...this.state!, evaluatedAt: step }
  }

  private async stop(outcome: 'finished' | 'failed' | 'aborted'): Promise<void> {
    try {
      if (!this.consistent) await this.tellOfGivenUp()
      if (this.state && this.consistent && outcome !== 'finished') {
        await this.session.save(this.state, this.protectedSteps).catch((error: unknown) => {
          if (outcome === 'aborted') throw error
          const message = `no checkpoint could be written: ${String(error)}`
          return this.session.notice({ code: 'checkpoint', level: 'warning', message })
        })
      }
      if (outcome === 'finished') {
        await this.reference?.dispose()
        this.reference = null
      }
    } finally {
      this.running = false
      await this.session.close(outcome)
    }
  }

  private async tellOfGivenUp(): Promise<void> {
    const from = this.session.checkpoint ?? 'the start: there is no checkpoint yet'
    const message = `update ${this.state!.step + 1} was given up after the weights had changed: resuming goes on from ${from}`
    await this.session.notice({ code: 'checkpoint', level: 'warning', message })
  }
}

function performanceOf(metrics: Readonly<Record<string, number>>, seconds: number): Record<string, number> {
  const sampled = metrics['env/all/total_ac_tokens'] ?? 0
  return {
    'time/total': seconds,
    'perf/sampled_tokens_per_second': seconds > 0 ? sampled / seconds : 0,
    'perf/trained_tokens_per_second': seconds > 0 ? (metrics['data/trained_tokens'] ?? 0) / seconds : 0,
  }
}
