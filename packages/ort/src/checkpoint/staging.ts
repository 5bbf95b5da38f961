import { createHash, type Hash } from 'node:crypto'
import * as nodeFs from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { syncFolder, type FileSystem, type WritableFile } from './file-system.js'
import { systemFailure } from './problem.js'

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

/** Writes and syncs all contents of an open file, and closes it. */
export async function pourAndClose(
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

/** A folder under its temporary name. */
export class Staging implements StagingFolder {
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
