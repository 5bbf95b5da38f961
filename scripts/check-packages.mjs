// Checks each package as its users would get it: exports, files and types (publint, attw), and no test code.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { publint } from 'publint'
import { formatMessage } from 'publint/utils'

const root = fileURLToPath(new URL('..', import.meta.url))
const attw = fileURLToPath(new URL('dist/index.js', import.meta.resolve('@arethetypeswrong/cli/package.json')))
const windows = process.platform === 'win32'

function run(command, args, cwd, shell = false) {
  const { error, status, stdout, stderr } = spawnSync(command, args, {
    cwd,
    shell,
    encoding: 'utf8',
    env: { ...process.env, NO_COLOR: '1' },
  })
  if (error) throw error
  return { status, stdout, output: stdout + stderr }
}

/** Whether a file serves our own tests alone: the kits that packages export stand in `src/testing`. */
const isTestCode = (path) => /\.test\.|\/(testing|tests)\//.test(path.replace(/^(src|dist)\/testing\//, ''))

/** What is wrong with a package, a line each. */
async function problems(folder, work) {
  const packed = run('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', work], folder, windows)
  if (packed.status !== 0) return [packed.output]
  const [{ filename, files }] = JSON.parse(packed.stdout)
  const tarball = join(work, filename)
  const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  const { buffer, byteOffset, byteLength } = readFileSync(tarball)
  const { messages } = await publint({
    pack: { tarball: buffer.slice(byteOffset, byteOffset + byteLength) },
    strict: true,
  })
  const args = [attw, tarball, '--profile', 'esm-only', '--no-color', '--format', 'ascii', '--quiet']
  const types = run(process.execPath, args, folder)
  return [
    ...files.filter(({ path }) => isTestCode(path)).map(({ path }) => `files: ${path} is test code`),
    ...messages.map((message) => `publint: ${formatMessage(message, manifest, { color: false })}`),
    ...(types.status === 0 ? [] : [`attw: ${types.output}`]),
  ]
}

const work = mkdtempSync(join(tmpdir(), 'selfplay-check-'))
try {
  let wrong = 0
  for (const name of readdirSync(join(root, 'packages'))) {
    for (const problem of await problems(join(root, 'packages', name), work)) {
      wrong++
      console.error(`packages/${name}: ${problem}`)
    }
  }
  if (wrong > 0) process.exitCode = 1
  else console.log('packages: exports, files and types are right')
} finally {
  rmSync(work, { recursive: true, force: true })
}
