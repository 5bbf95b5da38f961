import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { CheckpointError, type CallOptions, type SamplingClient } from '@selfplay/engine'
import type { RLDataset } from '@selfplay/env'
import { CollapseError } from '../errors.js'
import { exists } from '../run/files.js'
import { LoopSession, type RunNotice } from '../run/loop-session.js'
import { TrainingLoop, type LoopSetup } from '../run/training-loop.js'
import type { CreditedGroup } from './assemble.js'
import { FREE_RL_SETTINGS } from './config.js'
import { rlNotices } from './notices.js'
import { resolveDataset, resolveRLConfig, type RLConfig, type ResolvedRLConfig } from './options.js'
import { toGroupRecord, type IdsToText } from './record.js'
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

const REFERENCE = 'reference'

/**
 * Trains a policy on groups of episodes whose rewards are compared within each group.
 *
 * @throws ConfigError before anything happens, for options that cannot be used; the signal's reason when aborted, after a
 *   checkpoint that resumes; typed errors naming the place for everything else, all of them `instanceof SelfplayError`.
 */
export const trainRL = (config: RLConfig, options: CallOptions = {}): Promise<RLResult> =>
  new RLTrainer(config).train(options)

/** The loop behind {@link trainRL}, for those who want to see each update. */
export class RLTrainer extends TrainingLoop<RLState, RLUpdate> {
  readonly config: ResolvedRLConfig
  protected readonly session: LoopSession<RLState>
  protected readonly setup: LoopSetup
  private readonly decode: IdsToText | undefined
  private dataset: RLDataset | null = null
  private reference: SamplingClient | null = null
  private newest: RLUpdate | null = null

  /** @throws ConfigError */
  constructor(config: RLConfig) {
    super()
    this.config = resolveRLConfig(config)
    const { settings, client, evaluators, run, trackers, renderer, tokenizer, onNotice = () => {} } = this.config
    this.setup = { ...settings, client, evaluators }
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

  protected async begin(signal: AbortSignal): Promise<void> {
    this.dataset = await resolveDataset(this.config, signal)
    const { state, resumed } = await this.session.start()
    if (!resumed) await this.keepReference()
    this.state = state // last: with a state, a second try goes on as if all of this had been done
  }

  /** The policy at the start of the run, as what the penalty compares with; saved with the run, so that resuming finds it. */
  private async keepReference(): Promise<void> {
    const { settings, reference, client } = this.config
    if (!settings.klPenalty || reference) return
    const directory = this.referenceFolder
    if (directory !== null) {
      await rm(directory, { recursive: true, force: true })
      await client.saveState(directory)
    }
    this.reference = await client.snapshot()
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

  /** Updates of the whole run; NaN before a data set that decides it is there. */
  get totalSteps(): number {
    return this.config.settings.steps ?? this.dataset?.length ?? Number.NaN
  }

  protected get lengthSetting(): string {
    return `steps ${this.totalSteps}`
  }

  protected async *loop(signal: AbortSignal): AsyncGenerator<RLUpdate, void, undefined> {
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
  }

  private openSource(signal: AbortSignal): Promise<GroupSource> {
    const { client, settings, filter } = this.config
    const options = { client, dataset: this.dataset!, settings, filter }
    if (settings.offPolicy === null) return Promise.resolve(synchronousSource(options))
    return pacedSource(options, { first: this.state!.step, total: this.totalSteps }, signal)
  }

  private async update(batch: SampledBatch, started: number, signal: AbortSignal): Promise<Omit<RLUpdate, 'notices'>> {
    const { client, settings } = this.config
    const { totalSteps } = this
    const before = this.state!
    const { metrics, groups, notices } = await this.change(signal, async (signals) => {
      const done = await runRLUpdate(batch.groups, before, {
        client,
        settings,
        reference: this.config.reference ?? this.reference,
        totalSteps,
        batches: this.dataset!.length,
        signal,
        ...signals,
      })
      const seconds = (performance.now() - started) / 1000
      const row = { ...done.metrics, ...batch.times, ...performanceOf(done.metrics, seconds) }
      const told = rlNotices({ before, after: done.state, metrics: row, groups: done.groups })
      const state = { ...done.state, told: told.told, seconds: before.seconds + seconds }
      return { state, metrics: row, groups: done.groups, notices: told.notices }
    })
    const { step } = this.state!
    await this.session.update(metrics, () => groups.map((group) => toGroupRecord(group, step, this.decode)))
    for (const notice of notices) await this.session.notice(notice, step)
    return { step, totalSteps, rewardMean: metrics['env/all/reward/total'] ?? Number.NaN, metrics, groups }
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
      await this.save()
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

  protected override protectedSteps(): number[] {
    return this.state?.best ? [this.state.best.step] : []
  }

  protected override async finished(): Promise<void> {
    await this.reference?.dispose()
    this.reference = null
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
