import * as nodeFs from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { makeFolder, type FileSystem, type WriteOptions } from './file-system.js'
import { systemCode, systemFailure } from './problem.js'
import { refuseForeign } from './replaceable.js'
import { pourAndClose, Staging, type Contents, type FileRecord, type StagingFolder } from './staging.js'
import { confirm, recoverFolder, rename, settle, swap } from './swap.js'

export type { FileSystem, WritableFile, WriteOptions } from './file-system.js'
export type { ByteSink, Contents, FileRecord, StagingFolder } from './staging.js'
export { recoverFolder } from './swap.js'

export interface FolderWriteOptions extends WriteOptions {
  /**
   * What happens to a folder that stands there when the new one is complete: `replace` (default) it if it is ours or empty, or
   * `keep` it and drop the new one, for folders whose contents follow from their name.
   */
  readonly existing?: 'replace' | 'keep'
}

const TEMPORARY = '.selfplay-tmp-'
const STALE_AFTER_MS = 3_600_000
let counter = 0

/** Makes something under a temporary name beside the target that nobody else uses. */
async function withFreeName<T>(parent: string, make: (path: string) => Promise<T>): Promise<[path: string, made: T]> {
  for (;;) {
    const path = join(parent, `${TEMPORARY}${process.pid}-${counter++}`)
    try {
      return [path, await make(path)]
    } catch (error) {
      if (systemCode(error) !== 'EEXIST') throw error
    }
  }
}

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return systemCode(error) === 'EPERM'
  }
}

/** Removes what writers that were killed over an hour ago left in a folder. */
async function sweep(fs: FileSystem, parent: string): Promise<void> {
  // A folder that can be written to but not listed is swept by nobody.
  for (const name of await fs.readdir(parent).catch(() => [])) {
    const pid = new RegExp(`^\\${TEMPORARY}(\\d+)-\\d+$`).exec(name)?.[1]
    if (pid === undefined || isAlive(Number(pid))) continue
    const path = join(parent, name)
    try {
      if (Date.now() - (await fs.lstat(path)).mtimeMs > STALE_AFTER_MS)
        await fs.rm(path, { recursive: true, force: true })
    } catch {
      // Another process sweeps too, or it is not ours to remove: it can stay.
    }
  }
}

/**
 * Writes a file whole or not at all: under a temporary name beside it, synced, then renamed over what is there.
 *
 * @throws CheckpointError naming the path and the reason (disk full, no permission, ...); the signal's reason when aborted.
 *   In each case what stood at `path` is unchanged and no temporary file is left.
 */
export async function writeFileAtomic(
  path: string,
  contents: Contents,
  options: WriteOptions = {},
): Promise<FileRecord> {
  const { signal, fs = nodeFs } = options
  const target = resolve(path)
  const parent = dirname(target)
  signal?.throwIfAborted()
  try {
    await makeFolder(fs, parent)
    const [temporary, file] = await withFreeName(parent, (name) => fs.open(name, 'wx'))
    try {
      const record = await pourAndClose(file, contents, signal)
      signal?.throwIfAborted()
      await rename(fs, temporary, target)
      await confirm(fs, target)
      return record
    } catch (error) {
      await fs.rm(temporary, { recursive: true, force: true }).catch(() => undefined)
      throw error
    }
  } catch (error) {
    throw systemFailure(error, 'save', target, 'What stood there before is unchanged')
  }
}

/**
 * Writes a folder whole or not at all: `fill` puts files into a temporary folder beside it, which is synced and then takes
 * the name. A folder of that name is moved aside first and removed last (or kept: `existing`), if it is empty or one that
 * selfplay wrote: with a `manifest.json` of ours, and nothing that this does not list. All else is refused, before `fill` and
 * once more after it: other files, a folder with entries of others, the working directory, a symbolic link (to a folder, too).
 *
 * Between the two renames the name is free for an instant; should the process die just then, {@link recoverFolder} puts
 * the old folder back.
 *
 * @throws CheckpointError naming the path and the reason, or the first entry of others that stands there; whatever `fill`
 *   throws; the signal's reason when aborted. In each case what stood at `path` is unchanged and no temporary folder is left.
 */
export async function writeFolderAtomic<T>(
  path: string,
  fill: (staging: StagingFolder) => Promise<T>,
  options: FolderWriteOptions = {},
): Promise<T> {
  const { signal, fs = nodeFs, existing = 'replace' } = options
  const target = resolve(path)
  const parent = dirname(target)
  signal?.throwIfAborted()
  try {
    await makeFolder(fs, parent)
    await sweep(fs, parent)
    await recoverFolder(target, options)
    if (existing === 'replace') await refuseForeign(fs, target, options)
    const [temporary] = await withFreeName(parent, (name) => fs.mkdir(name))
    try {
      const staging = new Staging(fs, temporary, signal)
      const result = await fill(staging)
      await staging.sync()
      signal?.throwIfAborted()
      if (existing === 'keep') await settle(fs, temporary, target)
      else {
        await refuseForeign(fs, target, options)
        await swap(fs, temporary, target)
      }
      return result
    } catch (error) {
      await fs.rm(temporary, { recursive: true, force: true }).catch(() => undefined)
      throw error
    }
  } catch (error) {
    throw systemFailure(error, 'save', target, 'What stood there before is unchanged')
  }
}
