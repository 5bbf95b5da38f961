import { createHash } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** The only commit of the stand-in. */
export const COMMIT = 'c0ffee'.repeat(6) + 'c0de'

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')
const gitSha1 = (bytes: Uint8Array) => createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes).digest('hex')

/** One file of the stand-in: `lfs` ones are listed with a SHA-256, the others with Git's hash. */
interface Served {
  readonly bytes: Uint8Array
  readonly lfs?: boolean
}

/** A loopback stand-in for the hub: one repository, `org/tiny`. */
export class StandIn {
  readonly files = new Map<string, Served>()
  readonly requests: { path: string; range: string | undefined; token: string | undefined }[] = []
  /** Answers a request in its own way and returns true, or leaves it. */
  intercept: (path: string, response: ServerResponse, request: IncomingMessage) => boolean = () => false
  /** Changes the list of files. */
  relist: (entries: Record<string, unknown>[]) => unknown = (entries) => entries
  readonly server: Server = createServer((request, response) => this.answer(request, response))

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`
  }

  get fetched(): string[] {
    const paths = this.requests.filter(({ range }) => range === undefined).map(({ path }) => path)
    return paths
      .filter((path) => path.includes('/resolve/'))
      .map((path) => path.slice(`/org/tiny/resolve/${COMMIT}/`.length))
  }

  answer(request: IncomingMessage, response: ServerResponse): void {
    const path = (request.url ?? '').replace(/\?.*/, '')
    const { range, authorization } = request.headers
    this.requests.push({ path, range, token: authorization })
    if (this.intercept(path, response, request)) return
    const json = (value: unknown) => response.setHeader('content-type', 'application/json').end(JSON.stringify(value))
    if (/^\/api\/models\/org\/tiny\/revision\/(main|v1|feature%2Fx|[0-9a-f]{40})$/.test(path))
      return void json({ id: 'org/tiny', sha: COMMIT })
    if (path === `/api/models/org/tiny/tree/${COMMIT}`) return void json(this.relist(this.list()))
    const file = this.files.get(path.slice(`/org/tiny/resolve/${COMMIT}/`.length))
    if (!file) return void response.writeHead(404, { 'x-error-code': 'EntryNotFound' }).end('none')
    response.setHeader('etag', `"${file.lfs ? sha256(file.bytes) : gitSha1(file.bytes)}"`)
    if (range === 'bytes=0-0') {
      return void response
        .writeHead(206, { 'content-range': `bytes 0-0/${file.bytes.length}` })
        .end(file.bytes.subarray(0, 1))
    }
    response.end(file.bytes)
  }

  list(): Record<string, unknown>[] {
    return [...this.files].map(([path, { bytes, lfs }]) => ({
      type: 'file',
      path,
      size: bytes.length,
      oid: gitSha1(bytes),
      ...(lfs && { lfs: { oid: sha256(bytes), size: bytes.length, pointerSize: 130 } }),
    }))
  }
}
