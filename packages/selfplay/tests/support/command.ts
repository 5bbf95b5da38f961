import { EventEmitter } from 'node:events'
import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { main } from '../../src/command/main.js'

export interface Outcome {
  readonly code: number
  readonly out: string
  readonly err: string
}

export interface CommandOptions {
  readonly cwd: string
  readonly env?: Readonly<Record<string, string>>
  /** Called with everything on stdout so far, whenever there is more. */
  readonly onOut?: (out: string, signals: EventEmitter) => void
}

/** Runs the command within this process, on streams that are no terminals. */
export async function selfplay(args: readonly string[], { cwd, env = {}, onOut }: CommandOptions): Promise<Outcome> {
  const signals = new EventEmitter()
  let out = ''
  let err = ''
  const code = await main(args, {
    stdout: {
      write: (text) => {
        out += text
        onOut?.(out, signals)
      },
    },
    stderr: { write: (text) => (err += text) },
    env,
    signals,
    cwd: () => cwd,
    exit: (exitCode) => {
      throw new Error(`left at once with ${exitCode}`)
    },
  })
  return { code, out, err }
}

const path = (relative: string) => fileURLToPath(new URL(relative, import.meta.url))

/** Starts a TypeScript program on the sources, as a process of its own. */
export function start(file: string, args: readonly string[], options: CommandOptions): ChildProcessWithoutNullStreams {
  const tsx = path('../../../../node_modules/tsx/dist/esm/index.mjs')
  const loader = new URL(`file://${tsx.startsWith('/') ? '' : '/'}${tsx.replaceAll('\\', '/')}`).href
  return spawn(process.execPath, ['--conditions=@selfplay/source', '--import', loader, file, ...args], {
    cwd: options.cwd,
    env: { ...process.env, ORT_DISABLE_TELEMETRY: '1', ...options.env },
  })
}

/** The command's own entry file. */
export const cli: string = path('../../src/cli.ts')

/** Waits for the end of a process. */
export function ended(child: ChildProcessWithoutNullStreams): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    let out = ''
    let err = ''
    child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString('utf8')))
    child.stderr.on('data', (chunk: Buffer) => (err += chunk.toString('utf8')))
    child.on('error', reject)
    child.on('close', (code) => resolve({ code: code ?? -1, out, err }))
  })
}

/** Waits until a process has written something that matches. */
export function written(child: ChildProcessWithoutNullStreams, pattern: RegExp): Promise<void> {
  return new Promise((resolve, reject) => {
    let out = ''
    child.stdout.on('data', (chunk: Buffer) => {
      out += chunk.toString('utf8')
      if (pattern.test(out)) resolve()
    })
    child.on('close', () => reject(new Error(`ended without ${pattern}:\n${out}`)))
  })
}
