import { readFile, readdir, stat } from 'node:fs/promises'
import { basename, join, resolve } from 'node:path'
import { z } from 'zod'
import { ConfigError, RunFolderError } from '../errors.js'
import { JsonlFile, exists, writeFileAtomic } from './files.js'
import { lockRun, type RunLock } from './lock.js'

/** Version of the layout of a run folder. */
export const RUN_FORMAT = 1

const bytes = z.number().int().nonnegative()
export const lineLengthsSchema = z
  .strictObject({ metrics: bytes, evaluations: bytes, rollouts: bytes, events: bytes })
  .readonly()
/** Lengths of the run's line files in bytes, as a checkpoint remembers them. */
export type LineLengths = z.output<typeof lineLengthsSchema>

/** What a run writes besides its `config.json`, with what `selfplay train` and trained models add to it. */
const WRITTEN =
  /^((metrics|evaluations|rollouts|events|pairs)\.jsonl|checkpoints|reference|reports|model|agent_\d+|critic(_\d+)?|manifest\.json)$/

export const noLines: LineLengths = { metrics: 0, evaluations: 0, rollouts: 0, events: 0 }

/**
 * Where a run lives:
 * `config.json`, `metrics.jsonl` (a row per update), `evaluations.jsonl` (a row per evaluation), `rollouts.jsonl` (a line per
 * node), `events.jsonl` (what a person should know: notices in words), `checkpoints/`; `run.lock` while a process trains in it.
 */
export class RunFolder {
  readonly directory: string
  readonly metrics: JsonlFile
  readonly evaluations: JsonlFile
  readonly rollouts: JsonlFile
  readonly events: JsonlFile

  /** Taken here, or the caller's. */
  private lock: RunLock | null = null
  private isOwn = false

  constructor(directory: string) {
    this.directory = resolve(directory)
    const file = (name: string) => new JsonlFile(join(this.directory, name))
    this.metrics = file('metrics.jsonl')
    this.evaluations = file('evaluations.jsonl')
    this.rollouts = file('rollouts.jsonl')
    this.events = file('events.jsonl')
  }

  get name(): string {
    return basename(this.directory)
  }

  get checkpoints(): string {
    return join(this.directory, 'checkpoints')
  }

  /**
   * Whether a run has been here.
   *
   * @throws RunFolderError when it is of a newer layout; when there is no `config.json` of a run, but something that a run would
   *   overwrite: of something else, or of a run that has lost it.
   */
  async holdsRun(): Promise<boolean> {
    const path = join(this.directory, 'config.json')
    if (!(await exists(path))) {
      await this.refuseForeign()
      return false
    }
    let version: unknown
    try {
      version = (JSON.parse(await readFile(path, 'utf8')) as { formatVersion?: unknown }).formatVersion
    } catch (cause) {
      throw new RunFolderError(
        `${path} is not readable JSON: restore it or start a new run folder`,
        { path },
        { cause },
      )
    }
    if (typeof version === 'number' && version > RUN_FORMAT) {
      throw new RunFolderError(
        `${this.directory} has layout version ${version}; this version of selfplay knows up to ${RUN_FORMAT}: update it`,
        { formatVersion: version },
      )
    }
    if (typeof version !== 'number') throw this.foreign('config.json')
    return true
  }

  private async refuseForeign(): Promise<void> {
    const names = await readdir(this.directory).catch((): string[] => [])
    for (const name of names.sort()) {
      if (WRITTEN.test(name) && !(await isEmpty(join(this.directory, name)))) throw this.foreign(name)
    }
  }

  private foreign(name: string): RunFolderError {
    const path = join(this.directory, name)
    const lost = name === 'config.json' ? '' : '. If it is a run that has lost its config.json, restore that'
    return new RunFolderError(
      `${path} is in the way: a run writes there, but the folder holds no config.json of a run. Choose another folder, or move ` +
        `${name} away${lost}`,
      { path },
    )
  }

  /** Writes `config.json`. */
  async describe(content: Readonly<Record<string, unknown>>): Promise<void> {
    await writeFileAtomic(
      join(this.directory, 'config.json'),
      `${JSON.stringify({ formatVersion: RUN_FORMAT, ...content }, null, 2)}\n`,
    )
  }

  /**
   * Takes the folder for this process, until {@link release}.
   *
   * @param given a lock that the caller holds, and keeps.
   * @returns whose lock was taken over; null: nobody's.
   * @throws RunLockedError when another process has it.
   */
  async claim(given?: RunLock): Promise<string | null> {
    if (given === undefined) {
      this.lock ??= await lockRun(this.directory)
      this.isOwn = true
      return this.lock.takenOver
    }
    if (given.directory !== this.directory)
      throw new ConfigError(`run.lock is one of ${given.directory}, but the run is in ${this.directory}`)
    this.lock = given
    return null
  }

  /** Makes sure that the folder is still there and this process's. @throws RunFolderError when it was moved, deleted or replaced. */
  async check(): Promise<void> {
    await this.lock?.check()
  }

  /** Gives the folder back. */
  async release(): Promise<void> {
    const { lock, isOwn } = this
    this.lock = null
    this.isOwn = false
    if (isOwn) await lock?.release()
  }

  /** Opens the line files, each cut to what a checkpoint remembers of it. */
  async open(lengths: LineLengths = noLines): Promise<void> {
    await this.metrics.open(lengths.metrics)
    await this.evaluations.open(lengths.evaluations)
    await this.rollouts.open(lengths.rollouts)
    await this.events.open(lengths.events)
  }

  /** Lengths now, with everything on disk. */
  async lengths(): Promise<LineLengths> {
    const { metrics, evaluations, rollouts, events } = this
    for (const file of [metrics, evaluations, rollouts, events]) await file.sync()
    return {
      metrics: metrics.length,
      evaluations: evaluations.length,
      rollouts: rollouts.length,
      events: events.length,
    }
  }

  /** Closes the line files and gives the folder back, whatever happens. @returns their lengths. */
  async end(): Promise<LineLengths> {
    try {
      const lengths = await this.lengths()
      await this.close()
      return lengths
    } finally {
      await this.release()
    }
  }

  async close(): Promise<void> {
    for (const file of [this.metrics, this.evaluations, this.rollouts, this.events]) await file.close()
  }
}

/** Whether nothing is lost with a file or folder. */
async function isEmpty(path: string): Promise<boolean> {
  const found = await stat(path).catch(() => null)
  if (found?.isDirectory()) return (await readdir(path)).length === 0
  return found === null || found.size === 0
}
