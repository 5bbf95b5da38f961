import { join } from 'node:path'
import type { TrainingClient } from '@selfplay/engine'
import { CheckpointError } from '@selfplay/engine'
import { ConfigError } from '../errors.js'
import {
  CHECKPOINT_FORMAT,
  checkpointName,
  pruneCheckpoints,
  readTrainerState,
  saveCheckpoint,
} from '../run/checkpoint.js'
import { forgetRefusedGradients, holdsRefusedGradients } from '../refused-gradients.js'
import { checkpointToResume, claimFolder, createdAt, leaveLaterBehind, type RunTarget } from '../run/resume.js'
import { checkOutside } from '../run/check-outside.js'
import { lengthNotice } from '../run/length.js'
import { RunFolder, noLines, type LineLengths } from '../run/run-folder.js'
import { finishTrackers } from '../track/finish-trackers.js'
import type { MetricsRow, RunOutcome, Tracker } from '../track/tracker.js'
import type { Policy, Table } from './agents.js'
import type { AnalysedNode } from './analyse.js'
import type { ResolvedConfig } from './config.js'
import type { Extension, ExtraPart } from './extension.js'
import type { Notice } from './notices.js'
import { toRecord } from './record.js'
import {
  configDifferences,
  initialState,
  loadNodes,
  saveNodes,
  trainerStateSchema,
  type TrainerState,
} from './state.js'

export interface SessionOptions {
  readonly run: RunTarget | null
  readonly trackers: readonly Tracker[]
  readonly config: ResolvedConfig
  readonly table: Table
  readonly extension: Pick<Extension, 'trainer' | 'settings' | 'parts'> | null
  readonly onNotice: (notice: Notice) => void
}

/** The outside of a training loop: its run folder, checkpoints, trackers and notices. */
export class Session {
  private readonly folder: RunFolder | null
  private readonly options: SessionOptions
  private lines: LineLengths = noLines
  private opened = false
  private savedStep = -1
  /** The newest checkpoint of this run. */
  checkpoint: string | null = null
  /** Notices since the last update was given out. */
  pending: Notice[] = []

  constructor(options: SessionOptions) {
    checkOutside(options.run, options.trackers)
    this.options = options
    this.folder = options.run ? new RunFolder(options.run.directory) : null
  }

  private get trained(): Policy[] {
    return this.options.table.policies.filter(({ trained }) => trained)
  }

  /** What is trained besides the policies. */
  private get extra(): readonly ExtraPart[] {
    return this.options.extension?.parts ?? []
  }

  /** All settings that a run is made with. */
  private get settings(): ResolvedConfig {
    return { ...this.options.config, ...this.options.extension?.settings }
  }

  /** Starts a run, or takes one up again: weights, optimisers and everything in the state come from the checkpoint then. */
  async start(): Promise<TrainerState> {
    const { run, config, table, trackers, extension } = this.options
    const { folder, settings } = this
    let state = initialState(config, table.policies.length)
    let resumed = false
    const early: Notice[] = []
    if (folder && run) {
      early.push(...(await claimFolder(folder, run)))
      const { directory, notices } = await checkpointToResume(folder, run.resume ?? false)
      early.push(...notices)
      if (directory !== null) state = await this.load(directory, early)
      resumed = directory !== null
    }
    if (!resumed) this.refuseLeftovers()
    if (folder) {
      this.opened = true // also when it fails half-way: what is open is closed then
      await folder.open(this.lines)
      await folder.describe(await this.description(folder))
      if (resumed) early.push(...(await leaveLaterBehind(folder, state.step)))
    }
    this.opened = true
    const name = folder?.name ?? (extension?.trainer ?? 'MAGRPO').toLowerCase()
    for (const tracker of trackers)
      tracker.start({ name, config: settings as Record<string, unknown>, resumedAt: state.step })
    if (resumed) {
      const message = `resumed after update ${state.step} from ${this.checkpoint}`
      await this.notice({ code: 'resumed', level: 'info', message })
    }
    for (const held of early) await this.notice(held)
    return state
  }

  /** Opens the files again for a loop that was interrupted in this process. */
  async reopen(): Promise<void> {
    const { folder } = this
    if (folder) {
      await folder.claim(this.options.run?.lock)
      await folder.open(this.lines)
    }
    this.opened = true
  }

  private async load(directory: string, early: Notice[]): Promise<TrainerState> {
    const { table } = this.options
    const saved = await readTrainerState(directory, trainerStateSchema)
    const differences = configDifferences(saved.config, this.settings)
    if (differences.length > 0) {
      throw new ConfigError(
        `the run in ${directory} was made with other settings: ${differences.join('; ')}. Use the same, or start a new run`,
        { differences },
      )
    }
    if (saved.buffers.length !== table.policies.length) {
      throw new CheckpointError(
        `${directory} is of a run with ${saved.buffers.length} policies, this one has ${table.policies.length}`,
        { directory, expected: table.policies.length, got: saved.buffers.length },
      )
    }
    for (const policy of this.trained) {
      const client = policy.client as TrainingClient
      await client.loadState(join(directory, partName(policy)))
      forgetRefusedGradients(client)
    }
    for (const { name, client } of this.extra) await client.loadState(join(directory, name))
    const { formatVersion: _version, lines, config: _config, buffers, ...rest } = saved
    const changed = lengthNotice(saved.config, this.settings, saved.step)
    if (changed) early.push(changed)
    this.lines = lines
    this.checkpoint = directory
    this.savedStep = saved.step
    return { ...rest, buffers: buffers.map((nodes) => loadNodes(nodes)) }
  }

  private refuseLeftovers(): void {
    const left = this.trained.find(({ client }) => holdsRefusedGradients(client as TrainingClient))
    if (!left) return
    throw new ConfigError(
      `agents[${left.seats[0]}] still holds the gradients of a step that was refused: load the agent anew, or resume from a checkpoint`,
      { agent: left.seats[0] },
    )
  }

  private async description(folder: RunFolder): Promise<Record<string, unknown>> {
    const { table, extension } = this.options
    const agents = table.seats.map(({ kind, policy, settings }) => ({
      kind,
      policy: policy?.index ?? null,
      model: policy?.client?.info ?? null,
      settings,
    }))
    const critics = this.extra.map(({ name, client }) => ({ name, model: client.info }))
    const trainer = extension?.trainer ?? 'MAGRPO'
    return {
      trainer,
      createdAt: await createdAt(folder),
      config: this.settings,
      agents,
      ...(critics.length > 0 && { critics }),
    }
  }

  /** Tells something to the user, the run folder and the next update. */
  async notice(notice: Notice, step?: number): Promise<void> {
    this.options.onNotice(notice)
    this.pending.push(notice)
    if (this.opened) await this.folder?.events.append([{ ...(step !== undefined && { step }), ...notice }])
  }

  /** Writes an update's row and rollouts, and gives the row to the trackers when it is its turn. */
  async update(metrics: MetricsRow, nodes: readonly AnalysedNode[], last: boolean): Promise<void> {
    const { config, run, trackers } = this.options
    const step = metrics['step']!
    await this.folder?.metrics.append([metrics])
    if (run?.rollouts !== false) {
      await this.folder?.rollouts.append(nodes.map((node) => toRecord(node, { step, epoch: metrics['epoch']! })))
    }
    if (step === 1 || step % config.loggingSteps === 0 || last) for (const tracker of trackers) tracker.log(metrics)
  }

  /** Writes an evaluation's row: `step` and `eval/*`. */
  async evaluation(row: MetricsRow): Promise<void> {
    await this.folder?.evaluations.append([row])
    for (const tracker of this.options.trackers) tracker.log(row)
  }

  /** Saves a checkpoint of a state between two updates, unless its step has one. Does nothing without a run folder. */
  async save(state: TrainerState): Promise<void> {
    const { folder } = this
    if (!folder || !this.opened || this.savedStep === state.step) return
    const { config } = this.options
    const { settings } = this
    this.lines = await folder.lengths()
    const { buffers, ...rest } = state
    const trainer = {
      formatVersion: CHECKPOINT_FORMAT,
      ...rest,
      buffers: buffers.map((nodes) => saveNodes(nodes)),
      lines: this.lines,
      config: settings,
    }
    const policies = this.trained.map((policy) => ({
      name: partName(policy),
      client: policy.client as TrainingClient,
    }))
    const parts = [...policies, ...this.extra].map(({ name, client }) => ({
      name,
      save: (directory: string) => client.saveState(directory),
    }))
    this.checkpoint = await saveCheckpoint(folder.checkpoints, state.step, trainer, parts)
    this.savedStep = state.step
    await pruneCheckpoints(
      folder.checkpoints,
      config.keepCheckpoints,
      state.best ? [checkpointName(state.best.step)] : [],
    )
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

/** The folder of a policy within a checkpoint: that of its first agent. */
const partName = (policy: Policy): string => `agent_${policy.seats[0]}`
