import type { CallOptions } from '@selfplay/engine'
import type { RLDataset } from '@selfplay/env'
import type { LoopSession, RunNotice } from '../run/loop-session.js'
import { PolicyLoop, policySession, type LoopSetup } from '../run/policy-loop.js'
import { References } from '../run/references.js'
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

/**
 * Trains a policy on groups of episodes whose rewards are compared within each group.
 *
 * @throws ConfigError before anything happens, for options that cannot be used; the signal's reason when aborted, after a
 *   checkpoint that resumes; typed errors naming the place for everything else, all of them `instanceof SelfplayError`.
 */
export const trainRL = async (config: RLConfig, options: CallOptions = {}): Promise<RLResult> => {
  const trainer = new RLTrainer(config)
  try {
    return await trainer.train(options)
  } finally {
    await trainer.dispose()
  }
}

/** The loop behind {@link trainRL}, for those who want to see each update. */
export class RLTrainer extends PolicyLoop<RLState, RLUpdate> {
  readonly config: ResolvedRLConfig
  protected readonly session: LoopSession<RLState>
  protected readonly setup: LoopSetup
  private readonly decode: IdsToText | undefined
  private dataset: RLDataset | null = null
  protected override readonly references: References
  private newest: RLUpdate | null = null

  /** @throws ConfigError */
  constructor(config: RLConfig) {
    super()
    this.config = resolveRLConfig(config)
    const { settings, client, evaluators, run, trackers, renderer, tokenizer, onNotice } = this.config
    this.setup = { ...settings, client, evaluators }
    this.decode = tokenizer && ((ids) => tokenizer.decode(ids))
    const isKept = settings.klPenalty && !this.config.reference
    this.references = new References(isKept ? [{ client, path: 'reference' }] : [], {
      penalty: 'klPenalty',
      option: 'reference',
    })
    this.session = policySession({
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
      beforeLoad: () => this.references.restore(this.session.folder!),
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

  protected override async begin(signal: AbortSignal): Promise<void> {
    this.dataset = await resolveDataset(this.config, signal)
    await super.begin(signal)
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
        reference: this.config.reference ?? this.references.of(client),
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
    const { reportEvery, groupsInReport } = this.config.settings
    const { step, groups } = update
    if (!last && !signal.aborted) await this.evaluateIfDue(false, signal)
    const { folder } = this.session
    if (folder && reportEvery > 0 && (last || step % reportEvery === 0))
      await writeReport(folder, step, groups.slice(0, groupsInReport), this.decode)
    await this.endUpdate()
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
