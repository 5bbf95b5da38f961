import { createHash, type Hash } from 'node:crypto'
import * as nodeFs from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { CheckpointError, type CallOptions } from '@selfplay/engine'
import { systemCode, systemFailure } from './problem.js'
import { refuseForeign } from './replaceable.js'

/** An open file, as far as writing needs it. */
export interface WritableFile {
  write(bytes: Uint8Array, offset: number, length: number): Promise<{ bytesWritten: number }>
  sync(): Promise<void>
  close(): Promise<void>
}

/** The part of `node:fs/promises` that writing goes through. Give another one to test failures. */
export interface FileSystem {
  open(path: string, flags: 'wx' | 'r'): Promise<WritableFile>
  mkdir(path: string, options?: { recursive: true }): Promise<unknown>
  rename(from: string, to: string): Promise<void>
  rm(path: string, options: { recursive: true; force: true }): Promise<void>
  lstat(path: string): Promise<{ isDirectory(): boolean; isSymbolicLink(): boolean; mtimeMs: number }>
  readdir(path: string): Promise<string[]>
}

export interface WriteOptions extends CallOptions {
  /** Default: Node's. */
  readonly fs?: FileSystem
}

export interface FolderWriteOptions extends WriteOptions {
  /**
   * What happens to a folder that stands there when the new one is complete: `replace` (default) it if it is ours or empty, or
   * `keep` it and drop the new one, for folders whose contents follow from their name.
   */
  readonly existing?: 'replace' | 'keep'
}

/** What was written, as a manifest records it. */
export interface FileRecord {
  /** Bytes. */
  readonly size: number
  /** Hex digits. */
  readonly sha256: string
}

/** Where the contents of one file go, in order. */
export interface ByteSink {
  write(bytes: Uint8Array): Promise<void>
}

/** The contents of a file: bytes, text (written as UTF-8), or a function that writes them piece by piece. */
export type Contents = Uint8Array | string | ((sink: ByteSink) => Promise<void>)

/** A folder that is being written; it takes its final name when all is in it. */
export interface StagingFolder {
  /** Where it lies for now. */
  readonly path: string
  /** Writes and syncs one file. `name` may hold `/`. */
  write(name: string, contents: Contents): Promise<FileRecord>
  /** Copies a file from elsewhere, byte for byte. */
  copy(name: string, from: string): Promise<FileRecord>
  /** Everything written so far. */
  readonly files: ReadonlyMap<string, FileRecord>
}

const PIECE = 8 << 20
const TEMPORARY = '.selfplay-tmp-'
const STALE_AFTER_MS = 3_600_000
const SWAP_GRACE_MS = 100
const RENAME_ATTEMPTS = 10
let counter = 0

class HashingSink implements ByteSink {
  size = 0
  readonly hash: Hash = createHash('sha256')
  readonly #file: WritableFile
  readonly #signal: AbortSignal | undefined

  constructor(file: WritableFile, signal: AbortSignal | undefined) {
    this.#file = file
    this.#signal = signal
  }

  async write(bytes: Uint8Array): Promise<void> {
    for (let start = 0; start < bytes.length; start += PIECE) {
      this.#signal?.throwIfAborted()
      const end = Math.min(start + PIECE, bytes.length)
      this.hash.update(bytes.subarray(start, end))
      for (let at = start; at < end;) at += (await this.#file.write(bytes, at, end - at)).bytesWritten
    }
    this.size += bytes.length
  }
}

async function pour(file: WritableFile, contents: Contents, signal: AbortSignal | undefined): Promise<FileRecord> {
  const sink = new HashingSink(file, signal)
  if (typeof contents === 'function') await contents(sink)
  else await sink.write(typeof contents === 'string' ? Buffer.from(contents, 'utf8') : contents)
  signal?.throwIfAborted()
  await file.sync()
  return { size: sink.size, sha256: sink.hash.digest('hex') }
}

async function pourAndClose(
  file: WritableFile,
  contents: Contents,
  signal: AbortSignal | undefined,
): Promise<FileRecord> {
  try {
    return await pour(file, contents, signal)
  } finally {
    await file.close()
  }
}

/** Makes a rename in a folder durable. Windows and some network file systems cannot sync a folder. */
async function syncFolder(fs: FileSystem, path: string): Promise<void> {
  try {
    const folder = await fs.open(path, 'r')
    try {
      await folder.sync()
    } finally {
      await folder.close()
    }
  } catch (error) {
    if (!['EISDIR', 'EPERM', 'EACCES', 'EINVAL', 'ENOTSUP', 'EBADF'].includes(systemCode(error) ?? '')) throw error
  }
}

/** Makes the rename that put `target` in place durable. */
async function confirm(fs: FileSystem, target: string): Promise<void> {
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

/** Makes a folder and those above it, and says why not: Node's own recursive call blames a read-only disk on a missing path. */
async function makeFolder(fs: FileSystem, path: string): Promise<void> {
  try {
    await fs.mkdir(path, { recursive: true })
  } catch (error) {
    const failed = error instanceof Error && 'path' in error ? error.path : undefined
    if (systemCode(error) === 'ENOENT' && typeof failed === 'string') await fs.mkdir(failed)
    throw error
  }
}

const exists = async (fs: FileSystem, path: string): Promise<boolean> => {
  try {
    await fs.lstat(path)
    return true
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes(systemCode(error) ?? '')) return false
    throw error
  }
}

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

class Staging implements StagingFolder {
  readonly path: string
  readonly files = new Map<string, FileRecord>()
  readonly #fs: FileSystem
  readonly #signal: AbortSignal | undefined
  readonly #folders = new Set<string>()

  constructor(fs: FileSystem, path: string, signal: AbortSignal | undefined) {
    this.#fs = fs
    this.path = path
    this.#signal = signal
  }

  async write(name: string, contents: Contents): Promise<FileRecord> {
    this.#signal?.throwIfAborted()
    const path = join(this.path, name)
    const folder = dirname(path)
    if (folder !== this.path && !this.#folders.has(folder)) {
      await this.#fs.mkdir(folder, { recursive: true })
      this.#folders.add(folder)
    }
    const record = await pourAndClose(await this.#fs.open(path, 'wx'), contents, this.#signal)
    this.files.set(name, record)
    return record
  }

  async copy(name: string, from: string): Promise<FileRecord> {
    let source: nodeFs.FileHandle
    try {
      source = await nodeFs.open(from, 'r')
    } catch (error) {
      throw systemFailure(error, 'copy', from)
    }
    try {
      return await this.write(name, async (sink) => {
        const piece = Buffer.allocUnsafeSlow(Math.min(PIECE, Math.max(1, (await source.stat()).size)))
        for (;;) {
          const { bytesRead } = await source.read(piece, 0, piece.length)
          if (bytesRead === 0) return
          await sink.write(piece.subarray(0, bytesRead))
        }
      })
    } finally {
      await source.close()
    }
  }

  async sync(): Promise<void> {
    for (const folder of [...this.#folders].reverse()) await syncFolder(this.#fs, folder)
    await syncFolder(this.#fs, this.path)
  }
}

/** Renames, and tries again for a while where another program (a virus scanner, an indexer) holds what was just written. */
async function rename(fs: FileSystem, from: string, to: string): Promise<void> {
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

async function swap(fs: FileSystem, temporary: string, target: string): Promise<void> {
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
async function settle(fs: FileSystem, temporary: string, target: string): Promise<void> {
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
