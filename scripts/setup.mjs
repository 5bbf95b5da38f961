// Installs (when the lock changed) and builds. Needs nothing but Node and npm.
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const json = (path) => JSON.parse(readFileSync(root + path, 'utf8'))

function run(command, args, env) {
  const { status } = spawnSync(command, args, {
    cwd: root,
    stdio: 'inherit',
    shell: process.platform === 'win32',
    env: { ...process.env, ...env },
  })
  if (status !== 0) process.exit(status ?? 1)
}

/** True when node_modules holds exactly what package-lock.json names. */
function installed() {
  try {
    const want = json('package-lock.json').packages
    const have = json('node_modules/.package-lock.json').packages
    return (
      Object.entries(have).every(([at, p]) => want[at]?.version === p.version && existsSync(root + at)) &&
      Object.entries(want).every(([at, p]) => !at.includes('node_modules/') || p.optional || p.peer || have[at])
    )
  } catch {
    return false
  }
}

if (!installed()) run('npm', ['ci', '--no-audit', '--no-fund'], { ONNXRUNTIME_NODE_INSTALL: 'skip' })
if (process.argv.includes('--cuda')) {
  console.log("Downloads onnxruntime's CUDA 12 libraries. Nothing uses them in this version: see CONTRIBUTING.md")
  run(process.execPath, ['node_modules/onnxruntime-node/script/install.js'], { ONNXRUNTIME_NODE_INSTALL: 'cuda12' })
}
if (!process.argv.includes('--no-build')) {
  run(process.execPath, ['node_modules/nx/dist/bin/nx.js', 'run-many', '-t', 'build'])
}
