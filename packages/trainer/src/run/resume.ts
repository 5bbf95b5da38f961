import { readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { RunFolderError } from '../errors.js'
import { newestCheckpoint, setAsideLater, setAsideMessage } from './checkpoint.js'
import type { RunLock } from './lock.js'
import type { RunFolder } from './run-folder.js'

/** Where a run is written, and how it begins. */
export interface RunTarget {
  readonly directory: string
  /** Go on from the newest complete checkpoint (true), or from this checkpoint folder. Default false: a new run. */
  readonly resume?: boolean | string
  /** Write `rollouts.jsonl`. Default true. */
  readonly rollouts?: boolean
  /** A lock of the folder that the caller holds already. Default: the trainer takes it while it trains. */
  readonly lock?: RunLock | undefined
}

/** What a person should know about how a run begins. */
export interface ResumeNotice {
  readonly code: 'lock_taken_over' | 'started_over' | 'checkpoint_skipped' | 'checkpoint_set_aside'
  readonly level: 'info' | 'warning'
  readonly message: string
}

/** Takes a run's folder, and says whose lock was in the way. @throws RunLockedError when another process has it. */
export async function claimFolder(folder: RunFolder, { lock }: RunTarget): Promise<readonly ResumeNotice[]> {
  const takenOver = await folder.claim(lock)
  if (takenOver === null) return []
  return [{ code: 'lock_taken_over', level: 'info', message: `the folder's lock was left over from ${takenOver}` }]
}

/**
 * The checkpoint that a run goes on from; null where it begins anew.
 *
 * @throws RunFolderError for a new run in a folder that holds one, or resuming in one that holds none, or when something else than a
 *   run holds what a run would overwrite; CheckpointError when there are checkpoints and none can be used.
 */
export async function checkpointToResume(
  folder: RunFolder,
  resume: boolean | string,
): Promise<{ readonly directory: string | null; readonly notices: readonly ResumeNotice[] }> {
  const { directory } = folder
  const found = await folder.holdsRun()
  if (resume === false) {
    if (!found) return { directory: null, notices: [] }
    throw new RunFolderError(
      `${directory} already holds a run: go on with it by run: { directory, resume: true }, or choose another folder`,
      { directory },
    )
  }
  if (typeof resume === 'string') return { directory: resume, notices: [] }
  if (!found) {
    throw new RunFolderError(`${directory} holds no run to resume: check the path, or start a new run`, { directory })
  }
  const newest = await newestCheckpoint(folder.checkpoints)
  if (!newest) {
    const message = `${directory} has no checkpoint yet: the run starts over`
    return { directory: null, notices: [{ code: 'started_over', level: 'warning', message }] }
  }
  const notices = newest.skipped.map(({ directory: skipped, problem }) => ({
    code: 'checkpoint_skipped' as const,
    level: 'warning' as const,
    message: `${basename(skipped)} is not complete (${problem}): using ${basename(newest.directory)} instead`,
  }))
  return { directory: newest.directory, notices }
}

/** Sets the checkpoints aside that are later than the step that a run goes on from. */
export async function leaveLaterBehind(folder: RunFolder, step: number): Promise<readonly ResumeNotice[]> {
  const names = await setAsideLater(folder.checkpoints, step)
  return names.map((name) => ({ code: 'checkpoint_set_aside', level: 'info', message: setAsideMessage(name, step) }))
}

/** When the run in a folder was begun, as its `config.json` says; now for a new one. */
export async function createdAt(folder: RunFolder): Promise<string> {
  const earlier = await readFile(join(folder.directory, 'config.json'), 'utf8').then(
    (text) => (JSON.parse(text) as { createdAt?: string }).createdAt,
    () => undefined,
  )
  return earlier ?? new Date().toISOString()
}
