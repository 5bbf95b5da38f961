import { stat } from 'node:fs/promises'
import { CheckpointError } from '@selfplay/engine'

/** The `code` of a failed system call such as `"ENOENT"`; undefined for every other kind of error. */
export function systemCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string') return undefined
  return 'syscall' in error || 'errno' in error ? error.code : undefined
}

/** A file that is not what its format or its manifest says. The message reads "path: expected E, got G. advice". */
export function damaged(path: string, expected: string, got: string, advice?: string): CheckpointError {
  const tail = advice === undefined ? '' : `. ${advice}`
  return new CheckpointError(`${path}: expected ${expected}, got ${got}${tail}`, { path, expected, got })
}

/**
 * Refuses what cannot be read to its end, such as a named pipe, which would wait for a writer for ever.
 * @throws CheckpointError. What is missing or a folder is left to whoever opens it.
 */
export async function refuseSpecialFile(path: string): Promise<void> {
  const found = await stat(path).catch(() => null)
  if (!found || found.isFile() || found.isDirectory()) return
  throw damaged(path, 'a file', 'a pipe, a device or a socket')
}

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'it does not exist',
  ENOTDIR: 'a part of its path is a file, not a folder',
  EISDIR: 'it is a folder, not a file',
  EACCES: 'access is denied; check its permissions',
  EPERM: 'the operation is not permitted; check its permissions and whether another program holds it open',
  EBUSY: 'another program holds it open',
  EROFS: 'the file system is read-only; choose another folder',
  ENOSPC: 'the disk is full; free some space or choose another folder',
  EDQUOT: 'the disk quota is used up; free some space or choose another folder',
  ENAMETOOLONG: 'the path is too long for this system',
  EMFILE: 'too many files are open',
}

/**
 * A failed system call as a typed error that says what was being done and why it failed; any other error as it is.
 *
 * @param action What was being done, e.g. `"read"` or `"save"`.
 * @param consequence What the failure leaves behind, e.g. `"What stood there before is unchanged"`.
 */
export function systemFailure(error: unknown, action: string, path: string, consequence?: string): unknown {
  const code = systemCode(error)
  if (code === undefined) return error
  const reason = REASONS[code] ?? (error as Error).message
  const tail = consequence === undefined ? '' : `. ${consequence}`
  return new CheckpointError(
    `cannot ${action} ${path}: ${reason} (${code})${tail}`,
    { path, cause: code },
    { cause: error },
  )
}
