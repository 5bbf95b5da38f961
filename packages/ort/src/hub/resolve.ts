import { createHash } from 'node:crypto'
import * as nodeFs from 'node:fs/promises'
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { InvalidInputError, type CallOptions } from '@selfplay/engine'
import { writeFileAtomic, type ByteSink, type FileSystem, type StagingFolder } from '../checkpoint/atomic.js'
import { MODEL_FOLDER, readWeightMap } from '../checkpoint/folder.js'
import { decodeUtf8, parseJsonObject, readText } from '../checkpoint/json.js'
import { openManifestedFolder, writeManifestedFolder } from '../checkpoint/manifest.js'
import { portableName } from '../checkpoint/names.js'
import { createHubClient, type HubClient, type HubModule } from './client.js'
import { HubError } from './errors.js'
import { chooseFirst, chooseWeights, INDEX, type RemoteFile } from './files.js'
import { classifySource, expandHome } from './source.js'

export interface ResolveModelOptions extends CallOptions {
  /** Branch, tag or commit of a hub model. Default `main`. Refused for a local folder. */
  readonly revision?: string
  /**
   * Where fetched models are kept. Default: the environment's `SELFPLAY_CACHE`, else `selfplay/hub` in the user's cache folder.
   */
  readonly cacheDir?: string
  /** Called as a file comes in, with bytes. */
  readonly onProgress?: (progress: { readonly file: string; readonly received: number; readonly total: number }) => void
  /** Longest wait for the next piece of an answer, in milliseconds. Default 60,000. */
  readonly idleTimeoutMs?: number
  /**
   * Where `HF_ENDPOINT` (default `https://huggingface.co`), `HF_TOKEN` and `HF_HUB_OFFLINE` (`1`: never use the network) are
   * read from. Default `process.env`.
   */
  readonly env?: Readonly<Record<string, string | undefined>>
  /** How to import `@huggingface/hub`. Default: `import()`. */
  readonly importHub?: () => Promise<HubModule>
  /** The file system to write through. Default: Node's. */
  readonly fs?: FileSystem
}

/** The longest index of shards that is read, in bytes. */
const MAX_INDEX = 64 << 20
const COMMIT = /^[0-9a-f]{40}$/
const REVISION = /^\w[\w.+-]*(?:\/[\w.+-]+)*$/

/**
 * The local folder of a model: the folder itself, or a hub model's files, fetched once into the cache.
 *
 * Only configs, tokenizer files and safetensors weights are fetched, never pickles or code. Sizes and hashes (SHA-256, or
 * Git's for small files) are compared with the hub's list, and a model takes its place in the cache whole or not at all.
 * Needs the optional package `@huggingface/hub` for models that are not in the cache.
 *
 * @param source A folder (anything that exists as one, or begins with `.`, `~`, `/` or a drive letter), or `org/name`.
 * @throws CheckpointError when a folder does not exist; InvalidInputError for a source or revision that cannot be one;
 *   MissingPackageError; HubError when the hub refuses, cannot be reached, or sends other bytes than it listed.
 */
export async function resolveModel(source: string, options: ResolveModelOptions = {}): Promise<string> {
  const { revision, env = process.env } = options
  const found = await classifySource(source, options)
  if (found.kind === 'folder') {
    if (revision === undefined) return found.path
    throw new InvalidInputError(`expected no revision for the local folder ${found.path}, got "${revision}"`, {
      source,
      revision,
    })
  }
  return resolveHubModel(
    found.name,
    checkRevision(revision ?? 'main'),
    resolve(expandHome(options.cacheDir ?? cacheFolder(env))),
    options,
  )
}

function checkRevision(revision: string): string {
  if (REVISION.test(revision) && !revision.includes('..')) return revision
  throw new InvalidInputError(`expected a branch, tag or commit as revision, got ${JSON.stringify(revision)}`, {
    revision,
  })
}

function cacheFolder(env: Readonly<Record<string, string | undefined>>): string {
  if (env.SELFPLAY_CACHE) return env.SELFPLAY_CACHE
  if (process.platform === 'win32')
    return join(env.LOCALAPPDATA ?? join(homedir(), 'AppData', 'Local'), 'selfplay', 'hub')
  if (process.platform === 'darwin') return join(homedir(), 'Library', 'Caches', 'selfplay', 'hub')
  return join(env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'selfplay', 'hub')
}

async function resolveHubModel(
  name: string,
  revision: string,
  cache: string,
  options: ResolveModelOptions,
): Promise<string> {
  const { env = process.env, signal, idleTimeoutMs = 60_000 } = options
  const home = join(cache, portableName(name))
  const pinned = COMMIT.test(revision) ? revision : undefined
  const offline = /^(1|true|yes|on)$/i.test(env.HF_HUB_OFFLINE ?? '')
  const known = pinned ?? (offline ? await readRef(home, revision, options) : undefined)
  if (known !== undefined && (await isPresent(join(home, known), options))) return join(home, known)
  if (offline) {
    throw new HubError(
      `${name}: expected its revision "${revision}" in the cache ${cache}, got none; HF_HUB_OFFLINE forbids to fetch it`,
      {
        name,
        revision,
        cache,
      },
    )
  }
  const client = await createHubClient({
    endpoint: env.HF_ENDPOINT || 'https://huggingface.co',
    token: env.HF_TOKEN?.trim() || undefined,
    idleTimeoutMs,
    ...(signal && { signal }),
    ...(options.importHub && { importHub: options.importHub }),
  })
  const commit = await client.resolveRevision(name, revision)
  const folder = join(home, commit)
  if (!(await isPresent(folder, options))) await fetchSnapshot(client, { name, revision, commit, folder }, options)
  if (revision !== commit) await writeFileAtomic(refFile(home, revision), `${commit}\n`, options)
  return folder
}

const refFile = (home: string, revision: string): string => join(home, 'refs', portableName(revision))

async function readRef(home: string, revision: string, options: CallOptions): Promise<string | undefined> {
  try {
    const commit = (await readText(refFile(home, revision), options)).trim()
    return COMMIT.test(commit) ? commit : undefined
  } catch {
    options.signal?.throwIfAborted()
    return undefined
  }
}

/** Whether a complete snapshot lies in the folder. It got there whole; files that vanished or shrank since are noticed. */
async function isPresent(folder: string, options: CallOptions): Promise<boolean> {
  try {
    await openManifestedFolder(folder, MODEL_FOLDER, { ...options, verify: 'sizes' })
    return true
  } catch {
    options.signal?.throwIfAborted()
    return false
  }
}

interface Snapshot {
  readonly name: string
  readonly revision: string
  readonly commit: string
  readonly folder: string
}

async function fetchSnapshot(client: HubClient, snapshot: Snapshot, options: ResolveModelOptions): Promise<void> {
  const { name, commit, folder } = snapshot
  const { files, others } = await client.list(name, commit)
  const first = chooseFirst(files, others, name)
  // Snapshots arrive whole: what stands here and is not complete was damaged since.
  await (options.fs ?? nodeFs).rm(folder, { recursive: true, force: true })
  await writeManifestedFolder(
    folder,
    MODEL_FOLDER,
    async (staging) => {
      let shards: Iterable<string> | undefined
      for (const file of first) {
        const text = await fetchFile(client, snapshot, file, staging, options)
        if (file.path !== INDEX) continue
        shards = readWeightMap(parseJsonObject(text, `${name}/${INDEX}`), `${name}/${INDEX}`).values()
      }
      for (const file of chooseWeights(files, name, shards)) await fetchFile(client, snapshot, file, staging, options)
    },
    { ...options, existing: 'keep', about: { repository: name, revision: snapshot.revision, commit } },
  )
}

/** Fetches one file into the staging folder and compares it with the list. Gives the text of an index, else ''. */
async function fetchFile(
  client: HubClient,
  { name, commit }: Snapshot,
  file: RemoteFile,
  staging: StagingFolder,
  { onProgress }: ResolveModelOptions,
): Promise<string> {
  const { path, size } = file
  const differs = (expected: string, got: string) =>
    new HubError(`${name}/${path}: expected ${expected} as the hub lists it, got ${got}. Try again`, {
      name,
      path,
      expected,
      got,
    })
  if (path === INDEX && size > MAX_INDEX) {
    throw new HubError(`${name}/${path}: expected an index of at most ${MAX_INDEX} bytes, got ${size}`, { name, path })
  }
  const kept: Uint8Array[] = []
  const git = file.gitSha1 === undefined ? undefined : createHash('sha1').update(`blob ${size}\0`)
  const receive = async (sink: ByteSink) => {
    let received = 0
    for await (const piece of client.download(name, commit, path)) {
      received += piece.length
      if (received > size) throw differs(`${size} bytes`, 'more')
      git?.update(piece)
      if (path === INDEX) kept.push(piece)
      await sink.write(piece)
      onProgress?.({ file: path, received, total: size })
    }
    if (received < size) throw differs(`${size} bytes`, `${received}`)
  }
  const { sha256 } = await staging.write(path, receive)
  if (file.sha256 !== undefined && file.sha256 !== sha256) throw differs(`SHA-256 ${file.sha256}`, sha256)
  const sha1 = git?.digest('hex')
  if (sha1 !== file.gitSha1) throw differs(`Git hash ${file.gitSha1}`, `${sha1}`)
  return decodeUtf8(Buffer.concat(kept), `${name}/${path}`)
}
