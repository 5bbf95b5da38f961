// Checks each package as its users would get it: exports, files and types (publint, attw).
import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const bin = (name, file) => `${root}node_modules/${name}/${file}`
const attw = bin('@arethetypeswrong/cli', 'dist/index.js')
const publint = bin('publint', 'src/cli.js')
let failed = false

for (const name of readdirSync(`${root}packages`)) {
  for (const [tool, args] of [
    [publint, ['run', '--strict', '--pack', 'npm']],
    [attw, ['--pack', '.', '--profile', 'esm-only', '--no-color', '--format', 'ascii', '--quiet']],
  ]) {
    const { status, stdout, stderr } = spawnSync(process.execPath, [tool, ...args], {
      cwd: `${root}packages/${name}`,
      encoding: 'utf8',
      env: { ...process.env, NO_COLOR: '1' },
    })
    if (status === 0) continue
    failed = true
    console.error(`packages/${name}: ${tool.split('node_modules/')[1]} found:\n${stdout}${stderr}`)
  }
}
if (failed) process.exit(1)
console.log('packages: exports, files and types are right')
