import { createHash } from 'node:crypto'
import { mkdir, readFile, readdir, rename, rm, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { CheckpointError } from '@selfplay/engine'
import { z } from 'zod'
import { exists, syncFolder, writeFileAtomic } from './files.js'

/** Version of a checkpoint's `manifest.json` and `trainer.json`. */
export const CHECKPOINT_FORMAT = 1

const manifestSchema = z.object({
  formatVersion: z.number(),
  step: z.number(),
  /** Every file besides the manifest, with its size; small ones with their SHA-256. */
  files: z.array(z.object({ path: z.string(), bytes: z.number(), sha256: z.string().optional() })),
})

/** Something that saves itself into a folder of its own. */
export interface CheckpointPart {
  readonly name: string
  readonly save: (directory: string) => Promise<void>
}

const MANIFEST = 'manifest.json'
const TEMPORARY = '.tmp-'
const ASIDE = 'set-aside-'
const TRAINER = 'trainer.json'
/** Files up to this size are hashed; larger ones carry the hashes of the core that wrote them. */
const HASHED_BYTES = 16 * 1024 * 1024

export const checkpointName = (step: number): string => `step-${String(step).padStart(8, '0')}`

/**
 * Writes a checkpoint whole or not at all: parts and `trainer.json` into a temporary folder, the manifest last, then a rename.
 * One of the same step that is complete already stays as it is.
 *
 * @returns its folder.
 */
export async function saveCheckpoint(
  root: string,
  step: number,
  trainer: unknown,
  parts: readonly CheckpointPart[],
): Promise<string> {
  const directory = join(root, checkpointName(step))
  const temporary = join(root, `${TEMPORARY}${checkpointName(step)}-${process.pid}`)
  try {
    if (await exists(directory)) {
      if ((await checkpointProblem(directory)) === null) return directory
      await rm(directory, { recursive: true, force: true })
    }
    await rm(temporary, { recursive: true, force: true })
    await mkdir(temporary, { recursive: true })
    for (const { name, save } of parts) await save(join(temporary, name))
    await writeFileAtomic(join(temporary, TRAINER), JSON.stringify(trainer))
    const files = await listFiles(temporary)
    const manifest = { formatVersion: CHECKPOINT_FORMAT, step, files }
    await writeFileAtomic(join(temporary, MANIFEST), `${JSON.stringify(manifest, null, 1)}\n`)
    await rename(temporary, directory)
    await syncFolder(root)
  } catch (cause) {
    await rm(temporary, { recursive: true, force: true }).catch(() => {})
    const message = cause instanceof Error ? cause.message : String(cause)
    // Where it lay for the moment helps nobody.
    const shown = message.replaceAll(temporary, directory)
    throw new CheckpointError(`the checkpoint of step ${step} could not be written: ${shown}`, { step }, { cause })
  }
  return directory
}

async function listFiles(root: string) {
  const entries = await readdir(root, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
  return Promise.all(
    files.sort().map(async (path) => {
      const { size: bytes } = await stat(path)
      const sha256 = bytes <= HASHED_BYTES ? await hashFile(path) : undefined
      const relative = path.slice(root.length + 1).replaceAll('\\', '/')
      return { path: relative, bytes, ...(sha256 !== undefined && { sha256 }) }
    }),
  )
}

const hashFile = async (path: string): Promise<string> =>
  createHash('sha256')
    .update(await readFile(path))
    .digest('hex')

/**
 * What is wrong with a checkpoint's files, in words; null when nothing is.
 *
 * @throws CheckpointError when it is of a newer format: whether it is whole is not ours to say, and neither is its end.
 */
export async function checkpointProblem(directory: string): Promise<string | null> {
  let manifest: z.output<typeof manifestSchema>
  try {
    const value: unknown = JSON.parse(await readFile(join(directory, MANIFEST), 'utf8'))
    manifest = manifestSchema.parse(value)
  } catch {
    return `${MANIFEST} is missing or unreadable`
  }
  if (manifest.formatVersion > CHECKPOINT_FORMAT) {
    throw new CheckpointError(
      `${directory}: its format version is ${manifest.formatVersion}, this version of selfplay reads up to ${CHECKPOINT_FORMAT}: update it`,
      { directory, formatVersion: manifest.formatVersion },
    )
  }
  for (const { path, bytes, sha256 } of manifest.files) {
    if (path.split('/').includes('..')) return `${MANIFEST} names a path outside the checkpoint: ${path}`
    const file = join(directory, path)
    const size = await stat(file).then(
      (found) => found.size,
      () => null,
    )
    if (size === null) return `${path} is missing`
    if (size !== bytes) return `${path} has ${size} bytes instead of ${bytes}`
    if (sha256 !== undefined && (await hashFile(file)) !== sha256)
      return `${path} is not what was written (its hash differs)`
  }
  return manifest.files.some(({ path }) => path === TRAINER) ? null : `${TRAINER} is missing`
}

/** A checkpoint that was passed over, and why. */
export interface SkippedCheckpoint {
  readonly directory: string
  readonly problem: string
}

/** Checkpoint folders, newest first. */
export async function listCheckpoints(root: string): Promise<string[]> {
  const names = await readdir(root).catch(() => [])
  return names
    .filter((name) => /^step-\d{8,}$/.test(name))
    .sort((a, b) => Number(b.slice(5)) - Number(a.slice(5)))
    .map((name) => join(root, name))
}

/**
 * The newest complete checkpoint, and the newer ones that are not. Null when there is none at all.
 *
 * @throws CheckpointError when there are checkpoints and all are damaged, or one of a newer format is in the way: a run neither
 *   starts over nor loses progress behind one's back.
 */
export async function newestCheckpoint(
  root: string,
): Promise<{ readonly directory: string; readonly skipped: readonly SkippedCheckpoint[] } | null> {
  const skipped: SkippedCheckpoint[] = []
  for (const directory of await listCheckpoints(root)) {
    const problem = await checkpointProblem(directory)
    if (problem === null) return { directory, skipped }
    skipped.push({ directory, problem })
  }
  if (skipped.length === 0) return null
  const all = skipped.map(({ directory, problem }) => `${directory}: ${problem}`).join('; ')
  throw new CheckpointError(`no complete checkpoint to resume from: ${all}. Restore one, or start a new run folder`, {
    skipped,
  })
}

/**
 * The parsed `trainer.json` of a checkpoint.
 * @throws CheckpointError when a file is missing or damaged, or the content lacks a part.
 */
export async function readTrainerState<S extends z.ZodType>(directory: string, schema: S): Promise<z.output<S>> {
  const problem = await checkpointProblem(directory)
  if (problem !== null) {
    throw new CheckpointError(`${directory} is no complete checkpoint: ${problem}. Resume from another one`, {
      directory,
    })
  }
  const value: unknown = JSON.parse(await readFile(join(directory, TRAINER), 'utf8'))
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  const issues = parsed.error.issues.map(({ path, message }) => `${path.map(String).join('.')}: ${message}`)
  throw new CheckpointError(`${TRAINER} in ${directory} lacks a part of the state: ${issues.join('; ')}`, {
    directory,
    issues,
  })
}

/**
 * Removes all but the newest `keep` checkpoints and those named in `protect`, and what savers that were killed left behind.
 * What cannot be removed now goes at the next save.
 */
export async function pruneCheckpoints(root: string, keep: number, protect: readonly string[]): Promise<void> {
  const all = await listCheckpoints(root)
  const surplus = all.slice(keep).filter((directory) => !protect.some((name) => join(root, name) === directory))
  const names = await readdir(root).catch(() => [])
  const leftovers = names.filter((name) => name.startsWith(TEMPORARY)).map((name) => join(root, name))
  for (const directory of [...surplus, ...leftovers]) {
    await rm(directory, { recursive: true, force: true }).catch(() => {})
  }
}

/**
 * Renames checkpoints of later steps than the one that a run goes on from: they are damaged, or belong to a course of the run
 * that is given up, and its lines are cut. Kept, they would be taken for the newest.
 *
 * @returns their new names.
 */
export async function setAsideLater(root: string, step: number): Promise<string[]> {
  const aside: string[] = []
  for (const directory of await listCheckpoints(root)) {
    const name = basename(directory)
    if (Number(name.slice(5)) <= step) continue
    const to = `${ASIDE}${name}`
    try {
      await rm(join(root, to), { recursive: true, force: true })
      await rename(directory, join(root, to))
    } catch (cause) {
      throw new CheckpointError(`${directory} could not be set aside: ${String(cause)}`, { directory }, { cause })
    }
    aside.push(to)
  }
  return aside
}

/** What a person is told about it. */
export const setAsideMessage = (name: string, step: number): string =>
  `${name.slice(ASIDE.length)} is later than update ${step}, which the run goes on from: it is called ${name} now`
