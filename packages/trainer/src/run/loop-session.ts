import { readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { TrainingClient } from '@selfplay/engine'
import { z } from 'zod'
import { ConfigError, RunFolderError } from '../errors.js'
import { forgetRefusedGradients, holdsRefusedGradients } from '../refused-gradients.js'
import type { MetricsRow, Tracker } from '../track/tracker.js'
import {
  CHECKPOINT_FORMAT,
  checkpointName,
  newestCheckpoint,
  pruneCheckpoints,
  readTrainerState,
  saveCheckpoint,
  setAsideLater,
  setAsideMessage,
} from './checkpoint.js'
import { settingDifferences } from './differences.js'
import { RunFolder, noLines, type LineLengths } from './run-folder.js'

/** Something that a person should know, in words. `code` is stable. */
export interface RunNotice {
  readonly code: string
  readonly level: 'info' | 'warning'
  readonly message: string
}

/** Where a run is written, and how it begins. */
export interface RunTarget {
  readonly directory: string
  /** Go on from the newest complete checkpoint (true), or from this checkpoint folder. Default false: a new run. */
  readonly resume?: boolean | string
  /** Write `rollouts.jsonl`. Default true. */
  readonly rollouts?: boolean
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
  private readonly early: RunNotice[] = []
  /** The newest checkpoint of this run. */
  checkpoint: string | null = null
  /** Notices since the last update was given out. */
  pending: RunNotice[] = []

  constructor(options: LoopSessionOptions<S>) {
    this.options = options
    this.folder = options.run ? new RunFolder(options.run.directory) : null
  }

  /** Starts a run, or takes one up again: weights, optimiser and everything in the state come from the checkpoint then. */
  async start(): Promise<{ readonly state: S; readonly resumed: boolean }> {
    const { kind, run, settings, trackers } = this.options
    const { folder } = this
    let state: S | null = null
    if (folder && run) {
      const found = await folder.holdsRun()
      if (run.resume) {
        const directory = await this.findCheckpoint(folder, run.resume, found)
        if (directory !== null) state = await this.load(directory)
      } else if (found) {
        throw new RunFolderError(
          `${folder.directory} already holds a run: set resume to go on with it, or choose another folder`,
          { directory: folder.directory },
        )
      }
    }
    const resumed = state !== null
    if (!resumed) this.refuseLeftovers()
    if (folder) {
      await folder.open(this.lines)
      await folder.describe(await this.description(folder))
    }
    const at = state?.step ?? 0
    for (const name of folder && resumed ? await setAsideLater(folder.checkpoints, at) : []) {
      this.early.push({ code: 'checkpoint_set_aside', level: 'info', message: setAsideMessage(name, at) })
    }
    this.opened = true
    for (const tracker of trackers) tracker.start({ name: folder?.name ?? kind, config: settings, resumedAt: at })
    if (resumed)
      await this.notice({
        code: 'resumed',
        level: 'info',
        message: `resumed after update ${at} from ${this.checkpoint}`,
      })
    for (const held of this.early.splice(0)) await this.notice(held)
    return { state: state ?? this.options.initialState(), resumed }
  }

  /** Opens the files again for a loop that was interrupted in this process. */
  async reopen(): Promise<void> {
    this.refuseLeftovers()
    await this.folder?.open(this.lines)
    this.opened = true
  }

  private refuseLeftovers(): void {
    if (!holdsRefusedGradients(this.options.client)) return
    throw new ConfigError(
      'the client still holds the gradients of a step that was refused: load the model anew, or resume from a checkpoint',
    )
  }

  private async findCheckpoint(folder: RunFolder, resume: true | string, found: boolean): Promise<string | null> {
    if (typeof resume === 'string') return resume
    if (!found) {
      throw new RunFolderError(`${folder.directory} holds no run to resume: check the path, or start a new run`, {
        directory: folder.directory,
      })
    }
    const newest = await newestCheckpoint(folder.checkpoints)
    if (!newest) {
      const message = `${folder.directory} has no checkpoint yet: the run starts over`
      this.early.push({ code: 'started_over', level: 'warning', message })
      return null
    }
    for (const { directory, problem } of newest.skipped) {
      const message = `${basename(directory)} is not complete (${problem}): using ${basename(newest.directory)} instead`
      this.early.push({ code: 'checkpoint_skipped', level: 'warning', message })
    }
    return newest.directory
  }

  private async load(directory: string): Promise<S> {
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
    this.lines = saved.lines
    this.checkpoint = directory
    this.savedStep = saved.state.step
    return saved.state
  }

  private async description(folder: RunFolder): Promise<Record<string, unknown>> {
    const { kind, settings, client } = this.options
    const earlier = await readFile(join(folder.directory, 'config.json'), 'utf8').then(
      (text) => (JSON.parse(text) as { createdAt?: string }).createdAt,
      () => undefined,
    )
    const createdAt = earlier ?? new Date().toISOString()
    return { trainer: kind, createdAt, config: settings, model: client.info }
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
    if (!folder || this.savedStep === state.step) return
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

  async close(outcome: 'finished' | 'failed' | 'aborted'): Promise<void> {
    if (this.opened && this.folder) {
      this.lines = await this.folder.lengths()
      await this.folder.close()
    }
    this.opened = false
    await Promise.all(this.options.trackers.map((tracker) => tracker.finish(outcome)))
  }
}
