import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { Case, PythonPeer, Sample } from './case.js'

/** One line from a side: ready to run (with versions of what it runs on), a sample, or what went wrong. */
export type SideReply =
  { readonly ready: Readonly<Record<string, string>> } | { readonly sample: Sample } | { readonly error: string }

/** One line to a side. Closing its input ends it. */
export type SideRequest =
  { readonly open: { readonly settings: unknown; readonly threads: number } } | { readonly run: true }

const path = (relative: string) => fileURLToPath(new URL(relative, import.meta.url))
const KEPT_OUTPUT = 4000

/** A side of a case in a process of its own, which stays up between its runs. */
export class SideProcess {
  readonly #child: ChildProcessWithoutNullStreams
  readonly #name: string
  #waiting: { resolve: (reply: SideReply) => void; reject: (error: Error) => void } | undefined
  #output = ''
  /** Versions of what it runs on, once opened. */
  versions: Readonly<Record<string, string>> = {}

  constructor(name: string, command: readonly string[], env: Readonly<Record<string, string>>) {
    const [program, ...args] = command
    this.#name = name
    this.#child = spawn(program!, args, { env: { ...process.env, ORT_DISABLE_TELEMETRY: '1', ...env } })
    this.#child.stderr.on('data', (chunk: Buffer) => {
      this.#output = (this.#output + chunk.toString('utf8')).slice(-KEPT_OUTPUT)
    })
    createInterface({ input: this.#child.stdout }).on('line', (line) => this.#receive(line))
    this.#child.on('error', (error) => this.#fail(error.message))
    this.#child.on('close', (code, signal) => this.#fail(`it ended with ${signal ?? `code ${code}`}`))
    this.#child.stdin.on('error', () => {}) // its end is told by `close`
  }

  get pid(): number | undefined {
    return this.#child.pid
  }

  async open(settings: unknown, threads: number): Promise<void> {
    const reply = await this.#ask({ open: { settings, threads } })
    if ('ready' in reply) this.versions = reply.ready
  }

  /** @throws Error with what the side said last, when it failed. */
  async run(): Promise<Sample> {
    const reply = await this.#ask({ run: true })
    if ('sample' in reply) return reply.sample
    throw new Error(`${this.#name}: expected a sample, got ${JSON.stringify(reply)}`)
  }

  /** Lets it end by itself; kills it when it does not within ten seconds. */
  async close(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const ended = new Promise<void>((resolve) => this.#child.once('close', () => resolve()))
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), 10_000)
    this.#child.stdin.end()
    await ended
    clearTimeout(timer)
  }

  #ask(request: SideRequest): Promise<SideReply> {
    return new Promise((resolve, reject) => {
      if (this.#child.exitCode !== null) return reject(new Error(`${this.#name} is not running any more`))
      this.#waiting = { resolve, reject }
      this.#child.stdin.write(`${JSON.stringify(request)}\n`)
    })
  }

  #receive(line: string): void {
    let reply: SideReply
    try {
      reply = JSON.parse(line) as SideReply
    } catch {
      return this.#fail(`it said ${JSON.stringify(line.slice(0, 200))}, which is no reply`)
    }
    if ('error' in reply) return this.#fail(reply.error)
    this.#waiting?.resolve(reply)
    this.#waiting = undefined
  }

  #fail(reason: string): void {
    this.#waiting?.reject(new Error(`${this.#name}: ${reason}\n${this.#output.trimEnd()}`))
    this.#waiting = undefined
  }
}

/** Starts a side that is written in TypeScript. */
export function startOwn(name: string, which: 'ours' | 'peer'): SideProcess {
  const tsx = new URL('../../node_modules/tsx/dist/esm/index.mjs', import.meta.url).href
  const command = ['--conditions=@selfplay/source', '--import', tsx, path('../worker.ts'), name, which]
  return new SideProcess(`${name} (${which})`, [process.execPath, ...command], {})
}

/** The interpreter of the Python peers, which live outside the repository; undefined: they are not run. */
export const peerPython = (): string | undefined => process.env['SELFPLAY_PEER_PYTHON'] || undefined

export const isPython = (peer: Case['peer']): peer is PythonPeer => typeof peer === 'object'

/** Starts a peer in Python. */
export function startPython(name: string, { script }: PythonPeer, python: string, threads: number): SideProcess {
  const pools = ['OMP_NUM_THREADS', 'MKL_NUM_THREADS', 'OPENBLAS_NUM_THREADS']
  return new SideProcess(`${name} (peer)`, [python, path(`../peers/${script}`)], {
    ...Object.fromEntries(pools.map((pool) => [pool, String(threads)])),
    HF_HUB_OFFLINE: '1',
    PYTHONDONTWRITEBYTECODE: '1',
    TOKENIZERS_PARALLELISM: 'false',
    WANDB_MODE: 'disabled',
  })
}
