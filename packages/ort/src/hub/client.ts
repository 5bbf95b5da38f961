import type { CallOptions } from '@selfplay/engine'
import { excerpt } from '../checkpoint/json.js'
import { HubError, MissingPackageError } from './errors.js'
import { isAllowed, type RemoteFile } from './files.js'

/** The part of `@huggingface/hub` that is used. */
export interface HubModule {
  modelInfo(params: HubCall & { name: string; additionalFields: ['sha'] }): Promise<{ sha: string }>
  listFiles(params: HubCall & { repo: Repository }): AsyncIterable<{
    type: string
    path: string
    size: number
    oid?: string
    lfs?: { oid: string; size: number }
  }>
  downloadFile(params: HubCall & { repo: Repository; path: string; xet: boolean }): Promise<Blob | null>
}

interface Repository {
  type: 'model'
  name: string
}

interface HubCall {
  revision: string
  hubUrl: string
  fetch: typeof fetch
}

export interface HubClientOptions extends CallOptions {
  /** Base address. Default `https://huggingface.co`. */
  readonly endpoint: string
  /** Sent to the endpoint's own origin only. */
  readonly token: string | undefined
  /** Longest wait for the next piece of an answer, in milliseconds. */
  readonly idleTimeoutMs: number
  readonly importHub?: () => Promise<HubModule>
}

/** The files of a repository. */
interface Listing {
  /** Those that may be fetched. */
  readonly files: RemoteFile[]
  /** Names of the others. */
  readonly others: string[]
}

/** Reads repositories of one hub. */
export interface HubClient {
  /** The commit, 40 hex digits, behind a branch, tag or commit. */
  resolveRevision(name: string, revision: string): Promise<string>
  /** The files of the top folder. */
  list(name: string, commit: string): Promise<Listing>
  /** The contents of a file, piece by piece. */
  download(name: string, commit: string, path: string): AsyncIterable<Uint8Array>
}

/** The longest list of files that is read. */
const MAX_ENTRIES = 100_000

const load = async (): Promise<HubModule> => (await import('@huggingface/hub')) as unknown as HubModule

async function loadHub(importHub: () => Promise<HubModule>): Promise<HubModule> {
  try {
    return await importHub()
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    if (code !== 'ERR_MODULE_NOT_FOUND' && code !== 'MODULE_NOT_FOUND') throw error
    throw new MissingPackageError(
      'loading a model by its hub name needs the package @huggingface/hub: run `npm i @huggingface/hub`, or give a local folder',
      { package: '@huggingface/hub' },
    )
  }
}

/**
 * A client over `@huggingface/hub`, which is imported now.
 *
 * @throws MissingPackageError when it is not installed; HubError when the endpoint cannot be used.
 */
export async function createHubClient(options: HubClientOptions): Promise<HubClient> {
  const { endpoint, signal, idleTimeoutMs } = options
  const hubUrl = checkEndpoint(endpoint)
  const { host, origin } = new URL(hubUrl)
  const hub = await loadHub(options.importHub ?? load)

  /** The answers of one operation, in order; whatever is still open when it ends is cut off. */
  async function* operate<T>(name: string, what: string, revision: string, run: (call: HubCall) => AsyncGenerator<T>) {
    const end = new AbortController()
    const signals = signal ? [signal, end.signal] : [end.signal]
    try {
      yield* run({ revision, hubUrl, fetch: guardFetch(options.token, origin, AbortSignal.any(signals)) })
    } catch (error) {
      signal?.throwIfAborted()
      throw explainFailure(error, name, what, host)
    } finally {
      end.abort()
    }
  }
  const soon = <T>(promise: Promise<T>) => withDeadline(promise, idleTimeoutMs, signal)

  return {
    async resolveRevision(name, revision) {
      const answers = operate(name, `revision ${excerpt(revision)}`, revision, async function* (call) {
        yield await soon(hub.modelInfo({ ...call, name, additionalFields: ['sha'] }))
      })
      for await (const { sha } of answers) if (/^[0-9a-f]{40}$/.test(sha)) return sha
      throw new HubError(`${name}: expected the hub to name a commit of 40 hex digits for the revision "${revision}"`, {
        name,
      })
    },
    async list(name, commit) {
      const listing: Listing = { files: [], others: [] }
      let count = 0
      const answers = operate(name, 'list of files', commit, async function* (call) {
        const entries = hub.listFiles({ ...call, repo: { type: 'model', name } })[Symbol.asyncIterator]()
        for (;;) {
          const { done, value } = await soon(entries.next())
          if (done) return
          if (typeof value?.path !== 'string' || ++count > MAX_ENTRIES) {
            throw new HubError(`${name}: expected a list of at most ${MAX_ENTRIES} files, got something else`, { name })
          }
          yield value
        }
      })
      for await (const entry of answers) {
        if (entry.type !== 'file') continue
        if (isAllowed(entry.path)) listing.files.push(describe(name, entry))
        else listing.others.push(entry.path)
      }
      return listing
    },
    download: (name, commit, path) =>
      operate(name, path, commit, async function* (call) {
        const blob = await soon(hub.downloadFile({ ...call, repo: { type: 'model', name }, path, xet: false }))
        if (!blob)
          throw new HubError(`${name}: expected the file ${path} that its list names, got "not found"`, { name, path })
        const reader = blob.stream().getReader()
        for (;;) {
          const { done, value } = await soon(reader.read())
          if (done) return
          yield value
        }
      }),
  }
}

function checkEndpoint(endpoint: string): string {
  let url: URL
  try {
    url = new URL(endpoint)
  } catch {
    throw new HubError('HF_ENDPOINT: expected an address such as https://huggingface.co, got something else')
  }
  if (!['http:', 'https:'].includes(url.protocol) || url.username !== '' || url.password !== '') {
    throw new HubError(
      'HF_ENDPOINT: expected an http(s) address without a user name or password; a token belongs in HF_TOKEN',
    )
  }
  return `${url.origin}${url.pathname}`.replace(/\/+$/, '')
}

/** A fetch that ends with the signal and shows the token to the hub itself only, wherever an answer may point to. */
function guardFetch(token: string | undefined, origin: string, signal: AbortSignal): typeof fetch {
  return async (input, init) => {
    const address = new URL(input instanceof Request ? input.url : input)
    const headers = new Headers(init?.headers)
    if (token !== undefined && address.origin === origin) headers.set('authorization', `Bearer ${token}`)
    const response = await fetch(input, { ...init, headers, signal })
    if (response.body === null)
      throw new HubError(`${address.host} answered without a body (status ${response.status})`)
    return response
  }
}

class IdleError extends Error {
  constructor(milliseconds: number) {
    super(`no answer within ${milliseconds / 1000} s`)
  }
}

/** The promise's outcome, unless the time is up or the signal fires before it. */
async function withDeadline<T>(promise: Promise<T>, milliseconds: number, signal: AbortSignal | undefined): Promise<T> {
  signal?.throwIfAborted()
  let stop: () => void = () => undefined
  const stopped = new Promise<never>((_, reject) => {
    const timer = setTimeout(() => reject(new IdleError(milliseconds)), milliseconds)
    const onAbort = () => reject(signal?.reason as Error)
    signal?.addEventListener('abort', onAbort, { once: true })
    stop = () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', onAbort)
    }
  })
  try {
    return await Promise.race([promise, stopped])
  } finally {
    stop()
  }
}

function describe(
  name: string,
  entry: {
    path: string
    size: number
    oid?: string
    lfs?: { oid: string; size: number }
  },
): RemoteFile {
  const { path, size, oid, lfs } = entry
  const sha256 = lfs?.oid.replace(/^sha256:/, '')
  const file = { path, size: lfs?.size ?? size, sha256, gitSha1: lfs ? undefined : oid }
  const hashed = file.sha256 === undefined ? /^[0-9a-f]{40}$/.test(oid ?? '') : /^[0-9a-f]{64}$/.test(file.sha256)
  if (Number.isSafeInteger(file.size) && file.size >= 0 && hashed) return file
  throw new HubError(`${name}: expected a size and a hash for ${path} in the list of files, got none`, { name, path })
}

const STATUS: Readonly<Record<number, string>> = {
  401: 'it does not exist, or it is private or gated: set HF_TOKEN to a token that may read it, and accept its licence on its page',
  403: 'access is denied: set HF_TOKEN to a token that may read it, and accept its licence on its page',
  404: 'it does not exist: check the name and the revision',
  429: 'too many requests: wait a while, or set HF_TOKEN',
}

/** An error of our own, without addresses, headers or tokens: answers may carry signed links. */
function explainFailure(error: unknown, name: string, what: string, host: string): HubError {
  if (error instanceof HubError) return error
  const status =
    error instanceof Error && 'statusCode' in error && typeof error.statusCode === 'number'
      ? error.statusCode
      : undefined
  const reason = status === undefined ? describeCause(error) : (STATUS[status] ?? 'the hub could not answer')
  const text = `${name}: cannot get its ${what} from ${host}: ${reason}${status === undefined ? '' : ` (status ${status})`}`
  const details = { name, what, host, ...(status !== undefined && { status }) }
  return new HubError(text, details)
}

function describeCause(error: unknown): string {
  if (error instanceof IdleError) return error.message
  const cause = error instanceof Error ? error.cause : undefined
  const code = cause instanceof Error && 'code' in cause && typeof cause.code === 'string' ? cause.code : undefined
  const offline = 'check the network and HF_ENDPOINT, or set HF_HUB_OFFLINE=1 to use what was fetched before'
  return code === undefined
    ? `the connection broke or the answer made no sense; ${offline}`
    : `no connection (${code}); ${offline}`
}
