import { spawn } from 'node:child_process'
import { mkdtemp, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
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

const npm = (args: readonly string[], cwd: string) => run(process.platform === 'win32' ? 'npm.cmd' : 'npm', args, cwd)

/** Builds all packages, as far as they are not built already. */
export const build = () =>
  run(process.execPath, [join(root, 'node_modules/nx/dist/bin/nx.js'), 'run-many', '-t', 'build'], root)

/** Packs a folder of this repository; the path of the tarball. */
export async function pack(folder: string, destination: string): Promise<string> {
  const output = await npm(['pack', '--json', '--pack-destination', destination], join(root, folder))
  const [{ filename }] = JSON.parse(output.slice(output.indexOf('[\n'))) as [{ filename: string }]
  return join(destination, filename)
}

/** Installs tarballs, and packages from the registry, into an empty folder within `parent`; its path. */
export async function install(parent: string, what: readonly string[]): Promise<string> {
  const folder = await mkdtemp(join(parent, 'install-'))
  await writeFile(join(folder, 'package.json'), JSON.stringify({ type: 'module', private: true }), 'utf8')
  await npm(['install', '--prefer-offline', '--ignore-scripts', '--no-audit', '--no-fund', ...what], folder)
  return folder
}
