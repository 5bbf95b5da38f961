import { open, mkdir, rename, rm, stat, truncate, type FileHandle } from 'node:fs/promises'
import { dirname, join, basename } from 'node:path'
import { RunFolderError } from '../errors.js'

/** Makes what was renamed in a folder last. Not every platform can open a folder; there the rename alone must do. */
export async function syncFolder(path: string): Promise<void> {
  try {
    const handle = await open(path, 'r')
    try {
      await handle.sync()
    } finally {
      await handle.close()
    }
  } catch {
    // Windows refuses to open folders.
  }
}

/**
 * Makes a folder and those above it, and says why not: Node's own recursive call blames a read-only disk on a missing path.
 *
 * @returns the topmost folder that was made; undefined when all were there.
 */
export async function makeFolder(path: string): Promise<string | undefined> {
  try {
    return await mkdir(path, { recursive: true })
  } catch (error) {
    const { code, path: failed } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' && failed !== undefined) await mkdir(failed)
    throw error
  }
}

/**
 * Writes a whole file or nothing: temporary name, fsync, rename. UTF-8.
 *
 * @throws RunFolderError naming the path and the reason (disk full, no permission, ...).
 */
export async function writeFileAtomic(path: string, text: string): Promise<void> {
  try {
    await makeFolder(dirname(path))
    await writeAndRename(path, text)
  } catch (cause) {
    throw unwritable(path, cause)
  }
  await syncFolder(dirname(path))
}

async function writeAndRename(path: string, text: string): Promise<void> {
  const temporary = join(dirname(path), `.${basename(path)}.${process.pid}.tmp`)
  try {
    const handle = await open(temporary, 'w')
    try {
      await handle.writeFile(text, 'utf8')
      await handle.sync()
    } finally {
      await handle.close()
    }
    await rename(temporary, path)
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => {})
    throw error
  }
}

export const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  )

/** A failed system call as a typed error that names the path. */
export function unwritable(path: string, cause: unknown): RunFolderError {
  const message = cause instanceof Error ? cause.message : String(cause)
  return new RunFolderError(`${path} could not be written: ${message}`, { path }, { cause })
}

/** A file of one JSON value per line that is only ever appended to, or cut back to an earlier length. */
export class JsonlFile {
  readonly path: string
  private handle: FileHandle | undefined
  private bytes = 0

  constructor(path: string) {
    this.path = path
  }

  /** Length of the file in bytes: everything appended so far. */
  get length(): number {
    return this.bytes
  }

  /**
   * Opens the file, cut to `length` bytes (default 0: a new file).
   * @throws RunFolderError when it cannot be written, or is shorter than that: lines that a checkpoint counts on are gone.
   */
  async open(length = 0): Promise<void> {
    await this.close()
    try {
      await this.prepare(length)
    } catch (cause) {
      if (cause instanceof RunFolderError) throw cause
      throw unwritable(this.path, cause)
    }
    this.bytes = length
  }

  private async prepare(length: number): Promise<void> {
    await makeFolder(dirname(this.path))
    if (length > 0) {
      const size = await stat(this.path).then(
        (found) => found.size,
        () => 0,
      )
      if (size < length) {
        throw new RunFolderError(
          `${basename(this.path)} has ${size} bytes, but the checkpoint was written when it had ${length}: ` +
            'restore the file or start a new run folder',
          { path: this.path, expected: length, got: size },
        )
      }
      await truncate(this.path, length)
    }
    this.handle = await open(this.path, length > 0 ? 'a' : 'w')
  }

  /** Appends one line per value, in one write. */
  async append(values: readonly unknown[]): Promise<void> {
    if (!this.handle) throw new RunFolderError(`${basename(this.path)} is not open`, { path: this.path })
    if (values.length === 0) return
    const data = Buffer.from(values.map((value) => `${JSON.stringify(value)}\n`).join(''), 'utf8')
    try {
      await this.handle.appendFile(data)
    } catch (cause) {
      throw unwritable(this.path, cause)
    }
    this.bytes += data.length
  }

  /** Waits until everything appended so far is on disk. @throws RunFolderError when the disk refuses. */
  async sync(): Promise<void> {
    try {
      await this.handle?.sync()
    } catch (cause) {
      throw unwritable(this.path, cause)
    }
  }

  /** @throws RunFolderError when the disk refuses. */
  async close(): Promise<void> {
    const { handle } = this
    this.handle = undefined
    try {
      await handle?.close()
    } catch (cause) {
      throw unwritable(this.path, cause)
    }
  }
}
