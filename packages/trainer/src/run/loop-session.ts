import { join } from 'node:path'
import type { TrainingClient } from '@selfplay/engine'
import { z } from 'zod'
import { ConfigError } from '../errors.js'
import { forgetRefusedGradients, holdsRefusedGradients } from '../refused-gradients.js'
import { finishTrackers } from '../track/finish-trackers.js'
import type { MetricsRow, RunOutcome, Tracker } from '../track/tracker.js'
import { CHECKPOINT_FORMAT, checkpointName, pruneCheckpoints, readTrainerState, saveCheckpoint } from './checkpoint.js'
import { checkOutside } from './check-outside.js'
import { settingDifferences } from './differences.js'
import { lengthNotice } from './length.js'
import { checkpointToResume, claimFolder, createdAt, leaveLaterBehind, type RunTarget } from './resume.js'
import { RunFolder, noLines, type LineLengths } from './run-folder.js'

/** Something that a person should know, in words. `code` is stable. */
export interface RunNotice {
  readonly code: string
  readonly level: 'info' | 'warning'
  readonly message: string
}

/** What every loop's state has. The rest is the loop's own, as plain data. */
export interface LoopState {
  /** Finished updates. */
  readonly step: number
}

export interface LoopSessionOptions<S extends LoopState> {
  /** Which loop it is: a checkpoint of another one is refused. */
  readonly kind: 'rl' | 'supervised'
  readonly run: RunTarget | null
  readonly client: TrainingClient
  readonly trackers: readonly Tracker[]
  /** Plain settings, as they stand in `config.json`. */
  readonly settings: Readonly<Record<string, unknown>>
  /** Settings that may differ when a run is taken up again. */
  readonly free: ReadonlySet<string>
  readonly stateSchema: z.ZodType<S>
  readonly initialState: () => S
  readonly keepCheckpoints: number
  readonly onNotice: (notice: RunNotice) => void
  /** Called before the weights of a checkpoint are loaded. */
  readonly beforeLoad?: () => Promise<void>
}

const count = z.number().int().nonnegative()
const lengths = z.strictObject({ metrics: count, evaluations: count, rollouts: count, events: count })

/** The part of a checkpoint that holds the policy. */
const POLICY = 'policy'

/** The outside of a loop that trains one policy: its run folder, checkpoints, trackers and notices. */
export class LoopSession<S extends LoopState> {
  readonly folder: RunFolder | null
  private readonly options: LoopSessionOptions<S>
  private lines: LineLengths = noLines
  private opened = false
  private savedStep = -1
  /** The newest checkpoint of this run. */
  checkpoint: string | null = null
  /** Notices since the last update was given out. */
  pending: RunNotice[] = []

  constructor(options: LoopSessionOptions<S>) {
    checkOutside(options.run, options.trackers)
    this.options = options
    this.folder = options.run ? new RunFolder(options.run.directory) : null
  }

  /** Starts a run, or takes one up again: weights, optimiser and everything in the state come from the checkpoint then. */
  async start(): Promise<{ readonly state: S; readonly resumed: boolean }> {
    const { kind, run, settings, trackers } = this.options
    const { folder } = this
    const early: RunNotice[] = []
    let state: S | null = null
    if (folder && run) {
      early.push(...(await claimFolder(folder, run)))
      const { directory, notices } = await checkpointToResume(folder, run.resume ?? false)
      early.push(...notices)
      if (directory !== null) state = await this.load(directory, early)
    }
    const resumed = state !== null
    if (!resumed) this.refuseLeftovers()
    if (folder) {
      this.opened = true // also when it fails half-way: what is open is closed then
      await folder.open(this.lines)
      await folder.describe(await this.description(folder))
    }
    const at = state?.step ?? 0
    if (folder && resumed) early.push(...(await leaveLaterBehind(folder, at)))
    this.opened = true
    for (const tracker of trackers) tracker.start({ name: folder?.name ?? kind, config: settings, resumedAt: at })
    if (resumed)
      await this.notice({
        code: 'resumed',
        level: 'info',
        message: `resumed after update ${at} from ${this.checkpoint}`,
      })
    for (const held of early) await this.notice(held)
    return { state: state ?? this.options.initialState(), resumed }
  }

  /** Opens the files again for a loop that was interrupted in this process. */
  async reopen(): Promise<void> {
    this.refuseLeftovers()
    const { folder } = this
    if (folder) {
      await folder.claim(this.options.run?.lock)
      await folder.open(this.lines)
    }
    this.opened = true
  }

  private refuseLeftovers(): void {
    if (!holdsRefusedGradients(this.options.client)) return
    throw new ConfigError(
      'the client still holds the gradients of a step that was refused: load the model anew, or resume from a checkpoint',
    )
  }

  private async load(directory: string, early: RunNotice[]): Promise<S> {
    const { kind, client, settings, free, stateSchema, beforeLoad } = this.options
    const schema = z.strictObject({
      formatVersion: z.literal(CHECKPOINT_FORMAT),
      kind: z.literal(kind),
      lines: lengths,
      settings: z.record(z.string(), z.unknown()),
      state: stateSchema,
    })
    const saved = await readTrainerState(directory, schema)
    const differences = settingDifferences(saved.settings, settings, free)
    if (differences.length > 0) {
      throw new ConfigError(
        `the run in ${directory} was made with other settings: ${differences.join('; ')}. Use the same, or start a new run`,
        { differences },
      )
    }
    await beforeLoad?.()
    await client.loadState(join(directory, POLICY))
    forgetRefusedGradients(client)
    const changed = lengthNotice(saved.settings, settings, saved.state.step)
    if (changed) early.push(changed)
    this.lines = saved.lines
    this.checkpoint = directory
    this.savedStep = saved.state.step
    return saved.state
  }

  private async description(folder: RunFolder): Promise<Record<string, unknown>> {
    const { kind, settings, client } = this.options
    return { trainer: kind, createdAt: await createdAt(folder), config: settings, model: client.info }
  }

  /** Tells something to the user, the run folder and the next update. */
  async notice(notice: RunNotice, step?: number): Promise<void> {
    this.options.onNotice(notice)
    this.pending.push(notice)
    if (this.opened) await this.folder?.events.append([{ ...(step !== undefined && { step }), ...notice }])
  }

  /** Writes an update's row and its rollouts, and tells the trackers. */
  async update(row: MetricsRow, rollouts: () => readonly unknown[] = () => []): Promise<void> {
    const { run, trackers } = this.options
    await this.folder?.metrics.append([row])
    if (this.folder && run?.rollouts !== false) await this.folder.rollouts.append(rollouts())
    for (const tracker of trackers) tracker.log(row)
  }

  /** Writes an evaluation's row. */
  async evaluation(row: MetricsRow): Promise<void> {
    await this.folder?.evaluations.append([row])
    for (const tracker of this.options.trackers) tracker.log(row)
  }

  /**
   * Saves a checkpoint of a state between two updates, unless its step has one. Does nothing without a run folder.
   *
   * @param protect steps whose checkpoints are kept beside the newest ones
   */
  async save(state: S, protect: readonly number[] = []): Promise<void> {
    const { folder } = this
    if (!folder || !this.opened || this.savedStep === state.step) return
    const { kind, settings, client, keepCheckpoints } = this.options
    this.lines = await folder.lengths()
    const trainer = { formatVersion: CHECKPOINT_FORMAT, kind, lines: this.lines, settings, state }
    const parts = [{ name: POLICY, save: (directory: string) => client.saveState(directory) }]
    this.checkpoint = await saveCheckpoint(folder.checkpoints, state.step, trainer, parts)
    this.savedStep = state.step
    await pruneCheckpoints(folder.checkpoints, keepCheckpoints, protect.map(checkpointName))
    const message = `checkpoint of update ${state.step}: ${this.checkpoint}`
    await this.notice({ code: 'checkpoint', level: 'info', message }, state.step)
  }

  async close(outcome: RunOutcome, signal: AbortSignal): Promise<void> {
    if (this.opened && this.folder) this.lines = await this.folder.end()
    else await this.folder?.release()
    this.opened = false
    await finishTrackers(this.options.trackers, outcome, { signal })
  }
}
