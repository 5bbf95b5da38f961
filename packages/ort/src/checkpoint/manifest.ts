import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { CheckpointError, type CallOptions } from '@selfplay/engine'
import { z } from 'zod'
import {
  recoverFolder,
  writeFolderAtomic,
  type FileRecord,
  type StagingFolder,
  type FolderWriteOptions,
} from './atomic.js'
import { checkJson, excerpt, printable, readJsonObject, type JsonObject, type JsonValue } from './json.js'
import { innerPath } from './names.js'
import { damaged, systemCode, systemFailure } from './problem.js'
import { MANIFEST_FILE } from './replaceable.js'

export { MANIFEST_FILE }

/** How manifest.json itself is laid out. */
const MANIFEST_VERSION = 1

/** What kind of folder this is, and the version of that kind that this code writes and reads up to. */
export interface FolderKind {
  /** E.g. `training_state`. */
  readonly kind: string
  readonly formatVersion: number
}

/** The contents of manifest.json. */
export interface Manifest {
  /** Marks the file as ours: other programs write a manifest.json too. */
  readonly format: 'selfplay'
  readonly manifestVersion: number
  readonly kind: string
  readonly formatVersion: number
  /** Size and SHA-256 of every other file of the folder, by name relative to it. */
  readonly files: Readonly<Record<string, FileRecord>>
  /** What else belongs to this kind, e.g. where a download came from. */
  readonly about: Readonly<Record<string, JsonValue>>
}

const manifestSchema = z.strictObject({
  format: z.literal('selfplay'),
  manifestVersion: z.int().positive(),
  kind: z.string().min(1),
  formatVersion: z.int().positive(),
  files: z.record(
    z.string().min(1),
    z.strictObject({ size: z.int().nonnegative(), sha256: z.string().regex(/^[0-9a-f]{64}$/) }),
  ),
  about: z.record(z.string(), z.json()),
})

/**
 * Writes a folder atomically ({@link writeFolderAtomic}) with a manifest of every file that `fill` puts into it.
 *
 * @param about Stored in the manifest as it is.
 */
export function writeManifestedFolder<T>(
  path: string,
  { kind, formatVersion }: FolderKind,
  fill: (staging: StagingFolder) => Promise<T>,
  options: FolderWriteOptions & { readonly about?: Readonly<Record<string, JsonValue>> } = {},
): Promise<T> {
  const { about = {} } = options
  checkJson(about, 'about')
  return writeFolderAtomic(
    path,
    async (staging) => {
      const result = await fill(staging)
      const files = Object.fromEntries(staging.files)
      const manifest: Manifest = {
        format: 'selfplay',
        manifestVersion: MANIFEST_VERSION,
        kind,
        formatVersion,
        files,
        about,
      }
      await staging.write(MANIFEST_FILE, `${JSON.stringify(manifest, null, 2)}\n`)
      return result
    },
    options,
  )
}

function refuseNewer(path: string, what: string, version: unknown, known: number): void {
  if (typeof version !== 'number' || version <= known) return
  throw new CheckpointError(
    `${path}: expected ${what} up to version ${known}, got version ${version}. It was written by a newer selfplay: update, or use a folder written by this version`,
    { path, expected: known, got: version, newer: true },
  )
}

/**
 * Reads manifest.json and checks what it says about itself, not yet the files.
 *
 * @returns undefined when the folder has no manifest.json, or one that another program wrote.
 * @throws CheckpointError when it is damaged, of another kind, or newer than this code understands.
 */
export async function readManifest(
  directory: string,
  { kind, formatVersion }: FolderKind,
  options: CallOptions = {},
): Promise<Manifest | undefined> {
  await recoverFolder(directory, options)
  const path = join(directory, MANIFEST_FILE)
  let value: JsonObject
  try {
    ;({ value } = await readJsonObject(path, options))
  } catch (error) {
    if (error instanceof CheckpointError && systemCode(error.cause) === 'ENOENT') return undefined
    throw error
  }
  if (value.format !== 'selfplay') return undefined
  refuseNewer(path, 'a manifest', value.manifestVersion, MANIFEST_VERSION)
  if (value.kind !== kind)
    throw damaged(path, `a folder of the kind "${kind}"`, `the kind ${excerpt(String(value.kind))}`)
  refuseNewer(path, `the format "${kind}"`, value.formatVersion, formatVersion)
  const parsed = manifestSchema.safeParse(value)
  if (!parsed.success) throw damaged(path, 'a manifest as selfplay writes it', printable(z.prettifyError(parsed.error)))
  for (const name of Object.keys(parsed.data.files)) innerPath(name, path)
  return parsed.data
}

/** The SHA-256 of a file, in hex digits. */
export async function hashFile(path: string, { signal }: CallOptions = {}): Promise<string> {
  signal?.throwIfAborted()
  const hash = createHash('sha256')
  try {
    for await (const piece of createReadStream(path, { highWaterMark: 1 << 20, ...(signal && { signal }) })) {
      hash.update(piece as Buffer)
    }
  } catch (error) {
    signal?.throwIfAborted()
    throw systemFailure(error, 'read', path)
  }
  return hash.digest('hex')
}

export interface VerifyOptions extends CallOptions {
  /** `hashes` reads every file; `sizes` finds missing and truncated files only, at once. Default `hashes`. */
  readonly verify?: 'hashes' | 'sizes'
}

/**
 * Compares the files of a folder with its manifest.
 *
 * @throws CheckpointError naming the first file that is missing, of another size, or changed.
 */
export async function verifyFiles(directory: string, manifest: Manifest, options: VerifyOptions = {}): Promise<void> {
  const { signal, verify = 'hashes' } = options
  const advice = `${MANIFEST_FILE} was written with it: use another copy, or delete ${MANIFEST_FILE} if the change was meant`
  const files = Object.entries(manifest.files)
  for (const [name, { size }] of files) {
    signal?.throwIfAborted()
    const path = join(directory, name)
    let got: number
    try {
      got = (await stat(path)).size
    } catch (error) {
      if (systemCode(error) !== 'ENOENT') throw systemFailure(error, 'read', path)
      throw damaged(path, `a file of ${size} bytes`, 'no such file', advice)
    }
    if (got !== size) throw damaged(path, `the ${size} bytes that were written`, `${got} bytes`, advice)
  }
  if (verify === 'sizes') return
  for (const [name, { sha256 }] of files) {
    const path = join(directory, name)
    const got = await hashFile(path, options)
    if (got !== sha256) throw damaged(path, `SHA-256 ${sha256}`, got, advice)
  }
}

/**
 * Reads the manifest of a folder that must have one, and checks every file against it.
 * @throws CheckpointError saying which file is missing, truncated or changed, or that the format is newer.
 */
export async function openManifestedFolder(
  directory: string,
  kind: FolderKind,
  options: VerifyOptions = {},
): Promise<Manifest> {
  const manifest = await readManifest(directory, kind, options)
  if (!manifest) {
    throw damaged(directory, `a folder with a ${MANIFEST_FILE} of the kind "${kind.kind}"`, `no such ${MANIFEST_FILE}`)
  }
  await verifyFiles(directory, manifest, options)
  return manifest
}

/** A checkpoint that was left aside. */
export interface SkippedFolder {
  readonly path: string
  /** What is wrong with it, as its error says. */
  readonly reason: string
}

/** The outcome of {@link newestComplete}. */
export interface NewestCheckpoint {
  /** undefined when no complete one was found. */
  readonly newest: { readonly path: string; readonly number: number; readonly manifest: Manifest } | undefined
  /** Newer ones than that, newest first. */
  readonly skipped: readonly SkippedFolder[]
}

/**
 * The newest complete checkpoint among the numbered folders of `directory` (`12`, `step-000012`, ...), by the number that
 * the name ends in. Incomplete and damaged ones are skipped and reported.
 *
 * @throws CheckpointError when the newest is of a newer format: falling back would lose its progress unseen.
 */
export async function newestComplete(
  directory: string,
  kind: FolderKind,
  options: VerifyOptions = {},
): Promise<NewestCheckpoint> {
  const skipped: SkippedFolder[] = []
  for (const { number, path } of await numberedFolders(directory)) {
    options.signal?.throwIfAborted()
    try {
      return { newest: { path, number, manifest: await openManifestedFolder(path, kind, options) }, skipped }
    } catch (error) {
      if (!(error instanceof CheckpointError) || error.details.newer === true) throw error
      skipped.push({ path, reason: error.message })
    }
  }
  return { newest: undefined, skipped }
}

async function numberedFolders(directory: string): Promise<{ number: number; path: string }[]> {
  let names: string[]
  try {
    names = (await readdir(directory, { withFileTypes: true }))
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => name)
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return []
    throw systemFailure(error, 'list', directory)
  }
  return names
    .flatMap((name) => {
      const digits = /^(?!\.).*?(\d{1,15})$/.exec(name)?.[1]
      return digits === undefined ? [] : [{ number: Number(digits), path: join(directory, name) }]
    })
    .sort((a, b) => b.number - a.number || (a.path < b.path ? 1 : -1))
}
