import { stat } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { CheckpointError, InvalidInputError, type CallOptions } from '@selfplay/engine'

/** What the user meant by a model source. */
export type ModelSource =
  { readonly kind: 'folder'; readonly path: string } | { readonly kind: 'hub'; readonly name: string }

const LOOKS_LOCAL = /^(\.|~|\/|\\|[a-zA-Z]:)|\\/
/** `org/name`: letters, digits, `-`, `_`, `.`, each part beginning and ending with a letter, digit or `_`. */
const HUB_NAME = /^\w(?:[\w.-]*\w)?\/\w(?:[\w.-]*\w)?$/

/** A path as typed, `~` being the home folder. */
export function expandHome(path: string): string {
  return path === '~' || path.startsWith('~/') || path.startsWith('~\\') ? join(homedir(), path.slice(1)) : path
}

async function kindOf(path: string): Promise<'folder' | 'file' | undefined> {
  try {
    return (await stat(path)).isDirectory() ? 'folder' : 'file'
  } catch {
    return undefined
  }
}

/**
 * Tells a local folder from a hub name. What exists as a folder is local; so is what begins with `.`, `~`, `/`, a drive
 * letter or holds a backslash. Anything else must be a hub name `org/name`.
 *
 * @throws CheckpointError when a local folder does not exist or is a file; InvalidInputError when it is neither.
 */
export async function classifySource(source: string, { signal }: CallOptions = {}): Promise<ModelSource> {
  signal?.throwIfAborted()
  const path = resolve(expandHome(source))
  const kind = source === '' ? undefined : await kindOf(path)
  if (kind === 'folder') return { kind: 'folder', path }
  if (kind === 'file') {
    throw new CheckpointError(`${path}: expected a model folder, got a file. Give the folder that holds it`, {
      path,
      source,
    })
  }
  if (LOOKS_LOCAL.test(source)) {
    throw new CheckpointError(
      `${path}: expected a model folder, got nothing of that name. Check the path, or give a hub name such as org/name`,
      { path, source },
    )
  }
  const legal = HUB_NAME.test(source) && source.length <= 96 && !source.includes('--') && !source.includes('..')
  if (legal) return { kind: 'hub', name: source }
  throw new InvalidInputError(
    `expected a model folder or a hub name org/name, got ${JSON.stringify(source)}: no such folder, and not a hub name`,
    { source },
  )
}
