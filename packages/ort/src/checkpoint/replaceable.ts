import { join } from 'node:path'
import type { CallOptions } from '@selfplay/engine'
import type { FileSystem } from './file-system.js'
import { excerpt, isObject, readJsonObject } from './json.js'
import { damaged, systemCode } from './problem.js'

/** The name of the file that lists all others. */
export const MANIFEST_FILE = 'manifest.json'

/** What file managers leave in every folder that somebody looks at. */
const LITTER: ReadonlySet<string> = new Set(['.DS_Store', 'Thumbs.db', 'desktop.ini'])

/**
 * Refuses to replace what was not written here: a folder may be replaced when it is empty, or when it has a manifest of ours and
 * nothing besides the files that this lists. A symbolic link is not followed.
 *
 * @throws CheckpointError naming the first entry of others, in the order of the names.
 */
export async function refuseForeign(fs: FileSystem, target: string, options: CallOptions): Promise<void> {
  const refuse = (got: string, advice: string) =>
    damaged(target, 'nothing, an empty folder, or one with only what selfplay wrote, to replace', got, advice)
  let found: Awaited<ReturnType<FileSystem['lstat']>>
  try {
    found = await fs.lstat(target)
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return
    throw error
  }
  if (found.isSymbolicLink()) throw refuse('a symbolic link', 'Name the folder that it points to, or remove the link')
  if (!found.isDirectory()) throw refuse('a file', 'Choose another name, or remove the file')
  if (target === process.cwd()) throw refuse('the working directory of this process', 'Name a folder in it')
  const foreign = await firstForeign(fs, target, await listedFiles(target, options))
  if (foreign === undefined) return
  throw refuse(`a folder with ${excerpt(foreign)}`, 'Choose another folder, or move that away: it would be lost')
}

/** The files of a folder as its manifest has them, itself included; none where it has no manifest of ours. */
async function listedFiles(folder: string, options: CallOptions): Promise<readonly string[]> {
  try {
    const { value } = await readJsonObject(join(folder, MANIFEST_FILE), options)
    if (value.format === 'selfplay' && isObject(value.files)) return [MANIFEST_FILE, ...Object.keys(value.files)]
  } catch {
    options.signal?.throwIfAborted()
  }
  return []
}

/** Path of the first entry that is not among the known files, relative to the folder. */
async function firstForeign(
  fs: FileSystem,
  folder: string,
  known: readonly string[],
  within = '',
): Promise<string | undefined> {
  for (const name of (await fs.readdir(join(folder, within))).sort()) {
    const path = `${within}${name}`
    if (!(await fs.lstat(join(folder, path))).isDirectory()) {
      if (!known.includes(path) && !LITTER.has(name)) return path
    } else if (known.some((file) => file.startsWith(`${path}/`))) {
      const foreign = await firstForeign(fs, folder, known, `${path}/`)
      if (foreign !== undefined) return foreign
    } else return path
  }
  return undefined
}
