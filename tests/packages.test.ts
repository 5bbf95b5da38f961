import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { packages, root, run } from './run.js'

const npm = process.platform === 'win32' ? 'npm.cmd' : 'npm'
const tarballs = new Map<string, string>()
let work: string

const manifest = async (name: string) =>
  JSON.parse(await readFile(join(root, 'packages', name, 'package.json'), 'utf8')) as {
    readonly name: string
    readonly exports: Record<string, unknown>
    readonly dependencies?: Record<string, string>
  }

/** A package with all of ours that it depends on. */
async function closure(name: string): Promise<string[]> {
  const { dependencies = {} } = await manifest(name)
  const ours = packages.filter((other) => Object.keys(dependencies).some((key) => key === `@selfplay/${other}`))
  return [...new Set([name, ...(await Promise.all(ours.map(closure))).flat()])]
}

beforeAll(async () => {
  work = await mkdtemp(join(tmpdir(), 'selfplay-packages-'))
  await run(process.execPath, [join(root, 'node_modules/nx/dist/bin/nx.js'), 'run-many', '-t', 'build'], root)
  for (const name of packages) {
    const output = await run(npm, ['pack', '--json', '--pack-destination', work], join(root, 'packages', name))
    const [{ filename }] = JSON.parse(output.slice(output.indexOf('['))) as [{ filename: string }]
    tarballs.set(name, join(work, filename))
  }
})
afterAll(() => rm(work, { recursive: true, force: true }))

async function install(names: readonly string[]): Promise<string> {
  const folder = await mkdtemp(join(work, 'install-'))
  await writeFile(join(folder, 'package.json'), JSON.stringify({ type: 'module', private: true }))
  const files = names.map((name) => tarballs.get(name)!)
  await run(npm, ['install', '--prefer-offline', '--ignore-scripts', '--no-audit', '--no-fund', ...files], folder)
  return folder
}

async function bytes(folder: string): Promise<number> {
  let total = 0
  for (const entry of await readdir(folder, { withFileTypes: true, recursive: true })) {
    if (entry.isFile()) total += (await stat(join(entry.parentPath, entry.name))).size
  }
  return total
}

describe('each package works alone in an empty folder', () => {
  it.each(packages)('%s', async (name) => {
    const folder = await install(await closure(name))
    const { name: specifier, exports } = await manifest(name)
    const entries = Object.keys(exports).filter((entry) => entry !== './package.json' && entry !== './testing')
    const specifiers = entries.map((entry) => specifier + entry.slice(1))
    const imports = specifiers.map((one, i) => `import * as m${i} from '${one}'`).join('\n')
    const use = specifiers.map((_, i) => `if (Object.keys(m${i}).length === 0) throw new Error('empty')`).join('\n')
    await writeFile(join(folder, 'main.mjs'), `${imports}\n${use}\n`)
    await run(process.execPath, ['main.mjs'], folder)
    await writeFile(join(folder, 'main.ts'), `${imports}\n${specifiers.map((_, i) => `void m${i}`).join('\n')}\n`)
    const compilerOptions = {
      module: 'NodeNext',
      target: 'ES2022',
      lib: ['ES2023'],
      strict: true,
      noEmit: true,
      types: [],
    }
    const types = { compilerOptions: { ...compilerOptions, skipLibCheck: name !== 'engine' }, files: ['main.ts'] }
    await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(types))
    await run(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', folder], folder)
  })
})

describe('env, rewards and renderers', () => {
  it('bring no native code, and little else', async () => {
    const folder = await install(['env', 'rewards', 'renderers'])
    const files = await readdir(join(folder, 'node_modules'), { recursive: true })
    expect(files.filter((file) => /\.(node|so|dylib|dll|wasm)$/.test(file))).toEqual([])
    expect(files.some((file) => file.includes('onnxruntime'))).toBe(false)
    expect(await bytes(join(folder, 'node_modules'))).toBeLessThan(12 * 2 ** 20)
  })

  it('are at most 400 kB as tarballs, together', async () => {
    const sizes = await Promise.all(['env', 'rewards', 'renderers'].map((name) => stat(tarballs.get(name)!)))
    expect(sizes.reduce((sum, { size }) => sum + size, 0)).toBeLessThan(400_000)
  })
})
