import { createHash } from 'node:crypto'
import * as nodeFs from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { CheckpointError } from '@selfplay/engine'
import { exists, syncFolder, type FileSystem, type WriteOptions } from './file-system.js'
import { systemCode, systemFailure } from './problem.js'

const SWAP_GRACE_MS = 100
const RENAME_ATTEMPTS = 10

/** Makes the rename that put `target` in place durable. */
export async function confirm(fs: FileSystem, target: string): Promise<void> {
  try {
    await syncFolder(fs, dirname(target))
  } catch (error) {
    throw new CheckpointError(
      `${target} was written and is in place, but the disk did not confirm it (${systemCode(error)}): it may not outlive a power cut`,
      { path: target, cause: systemCode(error) },
      { cause: error },
    )
  }
}

/** Renames, and tries again for a while where another program (a virus scanner, an indexer) holds what was just written. */
export async function rename(fs: FileSystem, from: string, to: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await fs.rename(from, to)
    } catch (error) {
      const code = systemCode(error) ?? ''
      const held = code === 'EBUSY' || (process.platform === 'win32' && (code === 'EPERM' || code === 'EACCES'))
      if (!held || attempt === RENAME_ATTEMPTS) throw error
      await sleep(10 * attempt)
    }
  }
}

/** Where an existing folder waits while the new one takes its name. */
const asideOf = (target: string): string =>
  join(
    dirname(target),
    `.selfplay-old-${createHash('sha256').update(basename(target), 'utf8').digest('hex').slice(0, 16)}`,
  )

/** Puts a finished folder in the place of another, which goes last. */
export async function swap(fs: FileSystem, temporary: string, target: string): Promise<void> {
  const aside = asideOf(target)
  const replaces = await exists(fs, target)
  if (replaces) {
    await fs.rm(aside, { recursive: true, force: true })
    await rename(fs, target, aside)
  }
  try {
    await rename(fs, temporary, target)
  } catch (error) {
    if (replaces && !(await exists(fs, target))) await rename(fs, aside, target)
    throw error
  }
  await confirm(fs, target)
  // The new folder stands. What cannot be removed now (a file held open on Windows) goes at the next save.
  if (replaces) await fs.rm(aside, { recursive: true, force: true }).catch(() => undefined)
}

/** Gives the temporary folder its name unless somebody else was faster. */
export async function settle(fs: FileSystem, temporary: string, target: string): Promise<void> {
  try {
    if (!(await exists(fs, target))) {
      await rename(fs, temporary, target)
      return await confirm(fs, target)
    }
  } catch (error) {
    if (error instanceof CheckpointError || !(await exists(fs, target))) throw error
  }
  await fs.rm(temporary, { recursive: true, force: true })
}

/** Puts back the folder that {@link writeFolderAtomic} had moved aside when its process died between the two renames. */
export async function recoverFolder(path: string, { signal, fs = nodeFs }: WriteOptions = {}): Promise<void> {
  const target = resolve(path)
  const aside = asideOf(target)
  signal?.throwIfAborted()
  const lost = async () => !(await exists(fs, target)) && (await exists(fs, aside))
  if (!(await lost())) return
  await sleep(SWAP_GRACE_MS) // another process may be between its two renames right now
  signal?.throwIfAborted()
  if (!(await lost())) return
  try {
    await rename(fs, aside, target)
    await syncFolder(fs, dirname(target))
  } catch (error) {
    if (!(await exists(fs, target))) throw systemFailure(error, 'recover', target)
  }
}
