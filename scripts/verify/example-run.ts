import { spawn } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const path = (relative: string): string => fileURLToPath(new URL(relative, import.meta.url))
const TSX = '../../node_modules/tsx/dist/cli.mjs'

/**
 * Runs a file of `examples/` on the sources, as a person would.
 *
 * @returns seconds from the start of the process to its end
 * @throws Error with the last lines of its output when it fails; the signal's reason when aborted.
 */
export async function runExample(file: string, args: readonly string[], signal: AbortSignal): Promise<number> {
  signal.throwIfAborted()
  const started = performance.now()
  const child = spawn(
    process.execPath,
    [path(TSX), '-C', '@selfplay/source', path(`../../examples/${file}`), ...args],
    { env: { ...process.env, ORT_DISABLE_TELEMETRY: '1' }, stdio: ['ignore', 'pipe', 'pipe'], signal },
  )
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8')
    stream.on('data', (chunk: string) => void (output = (output + chunk).slice(-4000)))
  }
  const code = await new Promise<number | null>((resolve, reject) => {
    child.on('error', (error) => reject(signal.aborted ? (signal.reason as Error) : error))
    child.on('close', resolve)
  })
  if (code !== 0) throw new Error(`${file} ended with ${code}:\n${output}`)
  return (performance.now() - started) / 1000
}

/** The lines of a file of a run, as JSON. */
export async function jsonLines<T>(directory: string, name: string): Promise<T[]> {
  const text = await readFile(join(directory, name), 'utf8')
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as T)
}
