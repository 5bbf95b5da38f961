import { readFileSync, unlinkSync } from 'node:fs'
import { mkdir, open, readFile, rm, rmdir, stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { RunFolderError, RunLockedError } from '../errors.js'
import { exists, makeFolder, unwritable } from './files.js'
import { holderSchema, isElsewhere, isGone, newHolder, type Holder } from './lock-holder.js'

/** A run folder that is this process's own until `release`. */
export interface RunLock {
  /** Absolute. */
  readonly directory: string
  /** In words, whose lock was in the way although that process is gone; null: nobody's. */
  readonly takenOver: string | null
  /** @throws RunFolderError when the folder is this process's no more: it was moved, deleted or replaced, or the lock removed. */
  readonly check: () => Promise<void>
  /** Gives the folder back. If it was made for the lock and is still empty, it goes. */
  readonly release: () => Promise<void>
}

const LOCK = 'run.lock'
/** A lock file gets its content within this time of its making. */
const WRITING_MS = 200
/** Taking a lock, and removing one that is left over, take milliseconds. */
const GIVE_UP_MS = 20_000
const GUARD_WAIT_MS = 10
const GUARD_LEFT_MS = 5000

/** Locks of this process, id to path: what is left of them when it exits goes then. */
const held = new Map<string, string>()

/**
 * Takes a run folder for this process, making it if need be. The lock is a file that only one process can make; it says who that
 * is. The lock of a process of this machine that is gone is taken over.
 *
 * @throws RunLockedError when somebody else has the folder, or a lock that is left over cannot be removed; RunFolderError when it
 *   cannot be written.
 */
export async function lockRun(folder: string): Promise<RunLock> {
  const directory = resolve(folder)
  const path = join(directory, LOCK)
  const made = await makeFolder(directory).catch((cause: unknown) => {
    throw unwritable(path, cause)
  })
  const own = await newHolder(directory)
  let takenOver: string | null = null
  const started = Date.now()
  while (!(await create(path, own))) {
    if (Date.now() - started > GIVE_UP_MS) throw stuck(path)
    const holder = await readHolder(path)
    if (holder === null) continue // given back meanwhile
    const reason = await leftOver(holder, own)
    if (reason === null) throw locked(directory, path, holder, own)
    if (await removeLeftOver(path, holder))
      takenOver = `process ${holder.pid}, which had it since ${holder.since} and ${reason}`
  }
  if (held.size === 0) process.on('exit', releaseAll)
  held.set(own.id, path)
  const check = async () => {
    if ((await readHolder(path))?.id === own.id) return
    const what = (await exists(directory))
      ? `${directory} is not this run's any more: the folder was replaced, or ${LOCK} in it removed`
      : `the folder ${directory} is gone: it was moved or deleted`
    throw new RunFolderError(`${what} while the run was training. Where its checkpoints are now, it can be resumed`, {
      directory,
    })
  }
  const release = async () => {
    if (!held.delete(own.id)) return
    if (held.size === 0) process.off('exit', releaseAll)
    const now = await readHolder(path).catch(() => null)
    if (now?.id === own.id) await rm(path, { force: true }).catch(() => {})
    if (made !== undefined) await removeEmpty(directory, made)
  }
  return { directory, takenOver, check, release }
}

function releaseAll(): void {
  for (const [id, path] of held) {
    try {
      if (readFileSync(path, 'utf8').includes(id)) unlinkSync(path)
    } catch {
      // Gone already; or it stays, and the next one takes it over.
    }
  }
}

/** Why a lock holds nobody off, in words; null when it does. */
async function leftOver(holder: Holder, own: Holder): Promise<string | null> {
  if (isElsewhere(holder, own)) return null
  if (await isGone(holder)) return 'is gone'
  if (holder.directory === own.directory) return null
  const original = await readHolder(join(holder.directory, LOCK)).catch(() => null)
  return original?.id === holder.id ? `works in ${holder.directory}: this is a copy of it` : null
}

/** @returns false when there is one already. */
async function create(path: string, holder: Holder): Promise<boolean> {
  try {
    const handle = await open(path, 'wx')
    try {
      await handle.writeFile(`${JSON.stringify(holder)}\n`, 'utf8')
    } catch (error) {
      await rm(path, { force: true }).catch(() => {})
      throw error
    } finally {
      await handle.close()
    }
    return true
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    if (code === 'EEXIST') return false
    // Whoever gave the folder back has just removed it as an empty one.
    if (code === 'ENOENT' && (await makeFolder(dirname(path)).catch(() => undefined)) !== undefined) return false
    throw unwritable(path, cause)
  }
}

/** @returns null when there is no lock. @throws RunLockedError when there is one that does not say whose it is. */
async function readHolder(path: string): Promise<Holder | null> {
  for (let isSecond = false; ; isSecond = true) {
    try {
      return holderSchema.parse(JSON.parse(await readFile(path, 'utf8')))
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return null
      if (isSecond) {
        throw new RunLockedError(
          `${path} does not say who uses the folder: expected a lock of this version of selfplay. If nobody trains there, remove it`,
          { path },
        )
      }
      await delay(WRITING_MS)
    }
  }
}

/**
 * Removes a lock that is left over. Several may try: one at a time looks again whether it is still that lock, so that nobody removes
 * the new one of somebody who was faster.
 *
 * @returns whether it was this call that removed it.
 * @throws RunLockedError when what another left behind on its way cannot be removed.
 */
async function removeLeftOver(path: string, holder: Holder): Promise<boolean> {
  const guard = `${path}.removal`
  try {
    await mkdir(guard)
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'EEXIST') throw unwritable(guard, cause)
    await delay(GUARD_WAIT_MS)
    const { mtimeMs } = await stat(guard).catch(() => ({ mtimeMs: Date.now() }))
    // Killed just then.
    if (Math.abs(Date.now() - mtimeMs) > GUARD_LEFT_MS) {
      await rmdir(guard).catch((failure: NodeJS.ErrnoException) => {
        if (failure.code !== 'ENOENT') throw stuck(path, failure)
      })
    }
    return false
  }
  try {
    if ((await readHolder(path))?.id !== holder.id) return false
    await rm(path, { force: true })
    return true
  } finally {
    await rmdir(guard).catch(() => {})
  }
}

/** A lock that is left over, and stays. */
function stuck(path: string, cause?: Error): RunLockedError {
  const reason = cause ? `: ${cause.message}` : ''
  return new RunLockedError(
    `${path} was left behind and cannot be removed${reason}. If nobody trains there, delete ${path} and ${path}.removal`,
    { path },
  )
}

function locked(directory: string, path: string, holder: Holder, own: Holder): RunLockedError {
  const { pid, host, since } = holder
  const elsewhere = isElsewhere(holder, own)
  const who = !elsewhere && pid === own.pid ? 'this very process' : `process ${pid} on ${host}`
  const advice = elsewhere
    ? `wait for its end, or choose another folder. Whether it still runs cannot be seen from here: if it does not, remove ${path}`
    : 'wait for its end or stop it, or choose another folder'
  return new RunLockedError(`${directory} is in use by ${who} since ${since}: ${advice}`, {
    directory,
    path,
    pid,
    host,
    since,
  })
}

/** Removes a folder and those above it that were made with it, as far as they are empty. */
async function removeEmpty(directory: string, made: string): Promise<void> {
  for (let folder = directory; folder.length >= made.length; folder = dirname(folder)) {
    const isRemoved = await rmdir(folder).then(
      () => true,
      () => false,
    )
    if (!isRemoved) return
  }
}
