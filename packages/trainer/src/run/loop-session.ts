import { join } from 'node:path'
import type { CriticClient } from '@selfplay/engine'
import type { z } from 'zod'
import { ConfigError } from '../errors.js'
import { forgetRefusedGradients, holdsRefusedGradients } from '../refused-gradients.js'
import { finishTrackers } from '../track/finish-trackers.js'
import type { MetricsRow, RunOutcome, Tracker } from '../track/tracker.js'
import { checkpointName, pruneCheckpoints, readTrainerState, saveCheckpoint } from './checkpoint.js'
import { consoleNotices } from './console-notices.js'
import { checkOutside } from './check-outside.js'
import { settingDifferences } from './differences.js'
import { lengthNotice } from './length.js'
import {
  checkpointToResume,
  claimFolder,
  createdAt,
  leaveLaterBehind,
  type ResumeNotice,
  type RunTarget,
} from './resume.js'
import { RunFolder, noLines, type LineLengths } from './run-folder.js'

/** Something that a person should know, in words. `code` is stable. */
export interface RunNotice<C extends string = string> {
  readonly code: C
  readonly level: 'info' | 'warning'
  readonly message: string
}

/** What every session may tell. */
type SessionCode = ResumeNotice['code'] | 'resumed' | 'checkpoint' | 'length_changed' | 'already_finished'

/** What every loop's state has. The rest is the loop's own, as plain data. */
export interface LoopState {
  /** Finished updates. */
  readonly step: number
  /** The update whose checkpoint is kept beside the newest ones, if one is. */
  readonly best?: { readonly step: number } | null
}

/** A client whose state is part of the run. */
export interface SessionPart {
  /** Its folder in checkpoints. */
  readonly name: string
  readonly client: Pick<CriticClient, 'saveState' | 'loadState'>
  /** What messages call it, e.g. `agents[0]`. */
  readonly title: string
}

/** What `trainer.json` of a checkpoint holds: everything that decides the rest of a run besides the clients' states. */
export interface SavedRun<S> {
  readonly state: S
  readonly lines: LineLengths
  /** All settings that the run is made with. */
  readonly settings: Readonly<Record<string, unknown>>
}

/** How that is written. */
export interface RunFile<S> {
  readonly schema: z.ZodType<SavedRun<S>>
  readonly encode: (saved: SavedRun<S>) => unknown
}

export interface LoopSessionOptions<S extends LoopState, C extends string> {
  /** Which trainer it is, as `config.json` says and trackers are told where there is no run folder. */
  readonly kind: string
  readonly run: RunTarget | null
  readonly parts: readonly SessionPart[]
  readonly trackers: readonly Tracker[]
  /** Plain settings, as they stand in `config.json`. */
  readonly settings: Readonly<Record<string, unknown>>
  /** Settings that may differ when a run is taken up again. */
  readonly free: ReadonlySet<string>
  readonly file: RunFile<S>
  readonly initialState: () => S
  readonly keepCheckpoints: number
  /** Default: see {@link consoleNotices}. */
  readonly onNotice: ((notice: RunNotice<C | SessionCode>) => void) | undefined
  /** What `config.json` says of the models. */
  readonly describe: () => Readonly<Record<string, unknown>>
  /** Called before a checkpoint's weights are loaded. */
  readonly beforeLoad?: ((state: S, directory: string) => Promise<void>) | undefined
}

/** The outside of a training loop: its run folder, checkpoints, trackers and notices. */
export class LoopSession<S extends LoopState, C extends string = string> {
  readonly folder: RunFolder | null
  private readonly options: LoopSessionOptions<S, C>
  private readonly onNotice: (notice: RunNotice<C | SessionCode>) => void
  private lines: LineLengths = noLines
  private opened = false
  /** Trackers have been told of a start, and not yet of its end. */
  private tracking = false
  private savedStep = -1
  /** The newest checkpoint of this run. */
  checkpoint: string | null = null
  /** Notices since the last update was given out. */
  pending: RunNotice<C | SessionCode>[] = []

  constructor(options: LoopSessionOptions<S, C>) {
    checkOutside(options.run, options.trackers)
    this.options = options
    this.onNotice = options.onNotice ?? consoleNotices()
    this.folder = options.run ? new RunFolder(options.run.directory) : null
  }

  /** Starts a run, or takes one up again: weights, optimisers and everything in the state come from the checkpoint then. */
  async start(): Promise<{ readonly state: S; readonly resumed: boolean }> {
    const { run, initialState } = this.options
    const { folder } = this
    const early: RunNotice<SessionCode>[] = []
    let saved: S | null = null
    if (folder && run) {
      early.push(...(await claimFolder(folder, run)))
      const { directory, notices } = await checkpointToResume(folder, run.resume ?? false)
      early.push(...notices)
      if (directory !== null) saved = await this.load(directory, early)
    }
    const resumed = saved !== null
    const state = saved ?? initialState()
    if (!resumed) this.refuseLeftovers()
    if (folder) {
      this.opened = true // also when it fails half-way: what is open is closed then
      await folder.open(this.lines)
      await folder.describe(await this.description(folder))
      if (resumed) early.push(...(await leaveLaterBehind(folder, state.step)))
    }
    this.begin(state.step)
    if (resumed) {
      const message = `resumed after update ${state.step} from ${this.checkpoint}`
      await this.notice({ code: 'resumed', level: 'info', message })
    }
    for (const held of early) await this.notice(held)
    return { state, resumed }
  }

  /** Opens the files again, and starts the trackers, for a loop that was interrupted in this process after update `step`. */
  async reopen(step: number): Promise<void> {
    this.refuseLeftovers()
    const { folder } = this
    if (folder) {
      await folder.claim(this.options.run?.lock)
      await folder.open(this.lines)
    }
    this.begin(step)
  }

  private begin(resumedAt: number): void {
    const { kind, settings, trackers } = this.options
    this.opened = true
    this.tracking = true
    const name = this.folder?.name ?? kind.toLowerCase()
    for (const tracker of trackers) tracker.start({ name, config: settings, resumedAt })
  }

  private refuseLeftovers(): void {
    const left = this.options.parts.find(({ client }) => holdsRefusedGradients(client))
    if (!left) return
    throw new ConfigError(
      `${left.title} still holds the gradients of a step that was refused: load it anew, or make a trainer that resumes ` +
        'from a checkpoint',
      { part: left.name },
    )
  }

  private async load(directory: string, early: RunNotice<SessionCode>[]): Promise<S> {
    const { parts, settings, free, file, beforeLoad } = this.options
    const saved = await readTrainerState(directory, file.schema)
    const { state } = saved
    const differences = settingDifferences(saved.settings, settings, free)
    if (differences.length > 0) {
      throw new ConfigError(
        `the run in ${directory} was made with other settings: ${differences.join('; ')}. Use the same, or start a new run`,
        { differences },
      )
    }
    await beforeLoad?.(state, directory)
    for (const { name, client } of parts) {
      await client.loadState(join(directory, name))
      forgetRefusedGradients(client)
    }
    const changed = lengthNotice(saved.settings, settings, state.step)
    if (changed) early.push(changed)
    this.lines = saved.lines
    this.checkpoint = directory
    this.savedStep = state.step
    return state
  }

  private async description(folder: RunFolder): Promise<Record<string, unknown>> {
    const { kind, settings, describe } = this.options
    return { trainer: kind, createdAt: await createdAt(folder), config: settings, ...describe() }
  }

  /** Tells something to the user, the run folder and the next update. */
  async notice(notice: RunNotice<C | SessionCode>, step?: number): Promise<void> {
    this.onNotice(notice)
    this.pending.push(notice)
    if (this.opened) await this.folder?.events.append([{ ...(step !== undefined && { step }), ...notice }])
  }

  /** Writes an update's row and its rollouts, and tells the trackers unless it is not their turn. */
  async update(row: MetricsRow, rollouts: () => readonly unknown[] = () => [], isLogged = true): Promise<void> {
    const { run, trackers } = this.options
    await this.folder?.check()
    await this.folder?.metrics.append([row])
    if (this.folder && run?.rollouts !== false) await this.folder.rollouts.append(rollouts())
    if (isLogged) for (const tracker of trackers) tracker.log(row)
  }

  /** Writes an evaluation's row. */
  async evaluation(row: MetricsRow): Promise<void> {
    await this.folder?.check()
    await this.folder?.evaluations.append([row])
    for (const tracker of this.options.trackers) tracker.log(row)
  }

  /** Saves a checkpoint of a state between two updates, unless its step has one. Does nothing without a run folder. */
  async save(state: S): Promise<void> {
    const { folder } = this
    if (!folder || !this.opened || this.savedStep === state.step) return
    const { settings, file, keepCheckpoints } = this.options
    await folder.check()
    this.lines = await folder.lengths()
    const trainer = file.encode({ state, lines: this.lines, settings })
    const parts = this.options.parts.map(({ name, client }) => ({
      name,
      save: (directory: string) => client.saveState(directory),
    }))
    this.checkpoint = await saveCheckpoint(folder.checkpoints, state.step, trainer, parts)
    this.savedStep = state.step
    await pruneCheckpoints(folder.checkpoints, keepCheckpoints, state.best ? [checkpointName(state.best.step)] : [])
    const message = `checkpoint of update ${state.step}: ${this.checkpoint}`
    await this.notice({ code: 'checkpoint', level: 'info', message }, state.step)
  }

  async close(outcome: RunOutcome, signal: AbortSignal): Promise<void> {
    if (this.opened && this.folder) this.lines = await this.folder.end()
    else await this.folder?.release()
    this.opened = false
    if (!this.tracking) return
    this.tracking = false
    await finishTrackers(this.options.trackers, outcome, { signal })
  }
}
