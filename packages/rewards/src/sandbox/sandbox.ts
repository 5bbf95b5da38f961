import type { Worker } from 'node:worker_threads'
import { bounded, neverAborted, onAbort } from '@selfplay/env'
import { z } from 'zod'
import { RewardOptionsError, SandboxError, SandboxMissingError } from '../errors.js'
import { parseOptions, show } from '../options.js'
import { workerSource } from './worker-source.js'

export interface SandboxOptions {
  /** Time of one call, in milliseconds. Default 1000. */
  readonly timeoutMs?: number
  /** Memory of one call, in bytes. Default 32 MiB. */
  readonly memoryBytes?: number
  /** Stack of one call, in bytes. Default 256 KiB. */
  readonly stackBytes?: number
}

const schema = z.strictObject({
  timeoutMs: z.int().positive().max(600_000).default(1000),
  memoryBytes: z
    .int()
    .min(2 ** 20)
    .max(2 ** 30)
    .default(32 * 2 ** 20),
  stackBytes: z
    .int()
    .min(2 ** 14)
    .max(2 ** 20)
    .default(2 ** 18),
})

/** A function of a program, and what it is called with. */
export interface SandboxCall {
  /** JavaScript, run as a script. */
  readonly program: string
  /** The name of the function that the program defines. */
  readonly name: string
  /** JSON values. */
  readonly args: readonly unknown[]
}

export type SandboxResult =
  /** `json` is what was returned (or resolved to), as JSON text. */
  | { readonly ok: true; readonly json: string }
  | { readonly ok: false; readonly kind: 'syntax' | 'error' | 'timeout' | 'memory'; readonly detail: string }

export interface Sandbox {
  /**
   * Calls a function of an untrusted program, in a world of its own: fresh for each call, without clock-independent
   * randomness, files, network, modules or anything of the host.
   *
   * @throws SandboxMissingError where QuickJS is not installed; SandboxError when the sandbox failed or was closed; the signal's
   *   reason when aborted. What the program does is in the result, never thrown.
   */
  run(call: SandboxCall, options?: { readonly signal?: AbortSignal }): Promise<SandboxResult>
  /** Ends what runs, with SandboxError. */
  close(): Promise<void>
}

/** How much longer than its time a call may take before its thread is ended from outside. */
const GRACE_MS = 2000
/** Loading QuickJS takes some tens of milliseconds. */
const LOAD_MS = 60_000

/**
 * Makes a sandbox for JavaScript: QuickJS in a thread of its own, started at the first call. Calls run one after another; the
 * caller's thread is never blocked. A sandbox that is idle keeps no process alive.
 *
 * @throws RewardOptionsError
 */
export function createSandbox(options: SandboxOptions = {}): Sandbox {
  return new QuickJSSandbox(parseOptions(schema, options, 'createSandbox'), import.meta.url)
}

/** The same, looking for QuickJS from another place than this file. */
export const createSandboxFrom = (from: string): Sandbox => new QuickJSSandbox(schema.parse({}), from)

type Reply =
  | { readonly type: 'ready' | 'started' }
  | { readonly type: 'failed'; readonly message: string }
  | { readonly type: 'result'; readonly result: SandboxResult; readonly broken: boolean }

class QuickJSSandbox implements Sandbox {
  readonly #limits: z.output<typeof schema>
  readonly #from: string
  #worker: Promise<Worker> | undefined
  /** Settles when the calls so far have. */
  #last: Promise<unknown> = Promise.resolve()
  readonly #closing = new AbortController()

  constructor(limits: z.output<typeof schema>, from: string) {
    this.#limits = limits
    this.#from = from
  }

  async run({ program, name, args }: SandboxCall, { signal = neverAborted } = {}): Promise<SandboxResult> {
    if (!/^[A-Za-z_$][\w$]*$/.test(name))
      throw new RewardOptionsError(`sandbox: expected the name of a function, got ${show(name)}`, { name })
    const request = { program, name, args: args.map(jsonOf), ...this.#limits }
    const turn = this.#last.then(() => this.#run(request, signal))
    this.#last = turn.catch(() => {})
    return await bounded(() => turn, { signal }) // a call that still waits for its turn is not waited for
  }

  async close(): Promise<void> {
    this.#closing.abort(new SandboxError('the sandbox is closed: make a new one with createSandbox()'))
    const worker = await this.#worker?.catch(() => undefined)
    await worker?.terminate()
  }

  async #run(request: object, signal: AbortSignal): Promise<SandboxResult> {
    signal.throwIfAborted()
    this.#closing.signal.throwIfAborted()
    this.#worker ??= startWorker(this.#from)
    const worker = await this.#worker.catch((error: unknown) => {
      this.#worker = undefined // the next call tries again
      throw error
    })
    signal.throwIfAborted()
    this.#closing.signal.throwIfAborted()
    const drop = () => {
      this.#worker = undefined
      return worker.terminate()
    }
    return await new Promise<SandboxResult>((resolve, reject) => {
      let timer: NodeJS.Timeout | undefined
      const ignore: (() => void)[] = []
      const settle = (act: () => void) => {
        clearTimeout(timer)
        for (const stopListening of ignore) stopListening()
        worker.unref()
        act()
      }
      const stop = (act: () => void) => settle(() => void drop().then(act, reject))
      const onMessage = (reply: Reply) => {
        if (reply.type === 'started') {
          const timeout = { ok: false, kind: 'timeout', detail: 'the thread had to be ended' } as const
          timer = setTimeout(() => stop(() => resolve(timeout)), this.#limits.timeoutMs + GRACE_MS)
        } else if (reply.type === 'result') {
          if (reply.broken) stop(() => resolve(reply.result))
          else settle(() => resolve(reply.result))
        }
      }
      ignore.push(listen(worker, onMessage, (error) => stop(() => reject(error))))
      for (const one of [signal, this.#closing.signal])
        ignore.push(onAbort(one, () => stop(() => reject(one.reason as Error))))
      worker.ref()
      worker.postMessage(request)
    })
  }
}

/** Hears what a worker says, and that it ended, which it never should. @returns a function that stops it */
function listen(
  worker: Worker,
  onMessage: (reply: Reply) => void,
  onBroken: (error: SandboxError) => void,
): () => void {
  const onError = (cause: Error) => onBroken(broke(cause))
  const onExit = (code: number) => onBroken(broke(new Error(`the thread ended with code ${code}`)))
  worker.on('message', onMessage).once('error', onError).once('exit', onExit)
  return () => void worker.off('message', onMessage).off('error', onError).off('exit', onExit)
}

const broke = (cause: Error) => new SandboxError(`the sandbox broke: ${cause.message}`, {}, { cause })

function jsonOf(value: unknown): string {
  const text = JSON.stringify(value) as string | undefined
  if (text === undefined) throw new RewardOptionsError(`sandbox: expected JSON values as arguments, got ${show(value)}`)
  return text
}

async function startWorker(from: string): Promise<Worker> {
  const [{ createRequire }, { Worker }] = await Promise.all([import('node:module'), import('node:worker_threads')])
  const require = createRequire(from)
  let quickjs: string
  try {
    quickjs = require.resolve('quickjs-emscripten')
  } catch (cause) {
    throw new SandboxMissingError(
      'running code needs the optional package quickjs-emscripten: npm install quickjs-emscripten@0.32.0',
      { package: 'quickjs-emscripten' },
      { cause },
    )
  }
  const worker = new Worker(workerSource, { eval: true, workerData: { quickjs }, env: {}, execArgv: [], stdin: false })
  let timer: NodeJS.Timeout | undefined
  let ignore = () => {}
  try {
    await new Promise<void>((resolve, reject) => {
      timer = setTimeout(() => reject(new SandboxError(`QuickJS has not loaded within ${LOAD_MS} ms`)), LOAD_MS)
      const onMessage = (reply: Reply) => {
        if (reply.type === 'ready') resolve()
        else reject(new SandboxError(`QuickJS could not be loaded: ${'message' in reply ? reply.message : reply.type}`))
      }
      ignore = listen(worker, onMessage, reject)
    })
  } catch (error) {
    await worker.terminate()
    throw error
  } finally {
    clearTimeout(timer)
    ignore()
  }
  worker.unref()
  return worker
}
