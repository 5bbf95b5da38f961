import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'

/** The repository. */
export const root = fileURLToPath(new URL('..', import.meta.url))

/** The packages by folder name, dependencies before their users. */
export const packages = ['engine', 'renderers', 'env', 'rewards', 'ort', 'trainer', 'model-tiny', 'selfplay'] as const

/** Runs a program; its output, or an error that holds it. */
export function run(
  command: string,
  args: readonly string[],
  cwd: string,
  env: NodeJS.ProcessEnv = {},
): Promise<string> {
  return new Promise((resolve, reject) => {
    const windows = process.platform === 'win32'
    const child = spawn(command, args, {
      cwd,
      shell: windows,
      env: { ...process.env, NO_COLOR: '1', ORT_DISABLE_TELEMETRY: '1', ONNXRUNTIME_NODE_INSTALL: 'skip', ...env },
    })
    let output = ''
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => (output += chunk.toString()))
    child.on('error', reject)
    child.on('close', (code) =>
      code === 0 ? resolve(output) : reject(new Error(`${command} ${args.join(' ')} ended with ${code}:\n${output}`)),
    )
  })
}

/** Runs a TypeScript file on the sources. */
export const tsx = (file: string, cwd: string, env?: NodeJS.ProcessEnv) =>
  run(process.execPath, [`${root}node_modules/tsx/dist/cli.mjs`, '-C', '@selfplay/source', file], cwd, env)
