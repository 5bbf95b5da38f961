import type { CallOptions } from '@selfplay/engine'
import { systemCode } from './problem.js'

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

export const exists = async (fs: FileSystem, path: string): Promise<boolean> => {
  try {
    await fs.lstat(path)
    return true
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes(systemCode(error) ?? '')) return false
    throw error
  }
}

/** Makes a folder and those above it, and says why not: Node's own recursive call blames a read-only disk on a missing path. */
export async function makeFolder(fs: FileSystem, path: string): Promise<void> {
  try {
    await fs.mkdir(path, { recursive: true })
  } catch (error) {
    const failed = error instanceof Error && 'path' in error ? error.path : undefined
    if (systemCode(error) === 'ENOENT' && typeof failed === 'string') await fs.mkdir(failed)
    throw error
  }
}

/** Makes a rename in a folder durable. Windows and some network file systems cannot sync a folder. */
export async function syncFolder(fs: FileSystem, path: string): Promise<void> {
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
