import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { build, install, pack, packages, root, run } from './run.js'

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
  await build()
  for (const name of packages) tarballs.set(name, await pack(`packages/${name}`, work))
})
afterAll(() => rm(work, { recursive: true, force: true }))

const tarballsOf = (names: readonly string[]) => names.map((name) => tarballs.get(name)!)

/** Bytes of all files in a folder: their contents, and the blocks that they take (Windows does not tell: 0). */
async function sizes(folder: string): Promise<{ readonly apparent: number; readonly onDisk: number }> {
  const total = { apparent: 0, onDisk: 0 }
  for (const entry of await readdir(folder, { withFileTypes: true, recursive: true })) {
    if (entry.isSymbolicLink()) continue
    const { size, blocks } = await stat(join(entry.parentPath, entry.name))
    total.onDisk += 512 * (blocks ?? 0)
    if (entry.isFile()) total.apparent += size
  }
  return total
}

/** The versions that this repository tests with. */
const { devDependencies } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as {
  readonly devDependencies: Record<string, string>
}
const pinned = (name: string) => `${name}@${devDependencies[name]}`

/** Compiles `main.ts` of a folder as strictly as a user may, the types of packages included; what the compiler says. */
async function compile(folder: string): Promise<string> {
  const compilerOptions = {
    module: 'NodeNext',
    target: 'ES2022',
    lib: ['ES2023'],
    strict: true,
    exactOptionalPropertyTypes: true,
    skipLibCheck: false,
    noEmit: true,
    types: ['node'],
  }
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['main.ts'] }))
  return run(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', folder], folder)
}

describe('each package works alone in an empty folder', () => {
  it.each(packages)('%s', async (name) => {
    const { name: specifier, exports } = await manifest(name)
    const kit = './testing' in exports
    const folder = await install(work, [
      ...tarballsOf(await closure(name)),
      pinned('@types/node'),
      ...(kit ? [pinned('vitest')] : []),
    ])
    const entries = Object.keys(exports).filter((entry) => entry !== './package.json')
    const imports = entries.map((entry, i) => `import * as m${i} from '${specifier}${entry.slice(1)}'`).join('\n')

    // The kit defines tests, so only a test run can import it.
    const main = entries.indexOf('.')
    await writeFile(
      join(folder, 'main.mjs'),
      `${imports.split('\n')[main]}\nconsole.log(Object.keys(m${main}).length)\n`,
    )
    expect(Number(await run(process.execPath, ['main.mjs'], folder))).toBeGreaterThan(0)

    await writeFile(join(folder, 'main.ts'), `${imports}\n${entries.map((_, i) => `void m${i}`).join('\n')}\n`)
    expect(await compile(folder)).toBe('')
  })
})

describe('schemas of a user', () => {
  it('fit with the oldest zod that the packages allow, which is there once', async () => {
    const zod = '4.3.0'
    const manifests = await Promise.all(packages.map(manifest))
    const ranges = manifests.flatMap(({ dependencies }) => dependencies?.['zod'] ?? [])
    expect(new Set(ranges)).toEqual(new Set([`^${zod}`]))
    const folder = await install(work, [...tarballsOf(await closure('selfplay')), pinned('@types/node'), `zod@${zod}`])
    const files = await readdir(join(folder, 'node_modules'), { recursive: true })
    const copies = files.filter((file) => /(^|node_modules[\\/])zod[\\/]package\.json$/.test(file))
    expect(copies).toHaveLength(1)
    const program = [
      `import { scripted, playEnv, assistant, tool, toolCall, ToolEnv, user, verifyJson } from 'selfplay'`,
      `import { z } from 'zod'`,
      `const parameters = z.object({ a: z.number(), b: z.number() })`,
      `const add = tool({ name: 'add', description: 'Adds.', parameters, run: ({ a, b }) => String(a + b) })`,
      `const env = new ToolEnv({ tools: [add], messages: [user('17 + 25?')], grade: () => 1 })`,
      `const policy = scripted([assistant([toolCall('add', { a: 17, b: 25 }), toolCall('add', { a: 'x' })]), '42'])`,
      `const { reward, turns } = await playEnv(env, policy)`,
      `const { reason } = verifyJson('{"row": 3}', z.strictObject({ row: z.int().max(2) }))`,
      `console.log(reward, turns[0]?.metrics?.['tool_errors'], reason)`,
    ].join('\n')
    await writeFile(join(folder, 'main.ts'), program)
    expect(await compile(folder)).toBe('')
    await writeFile(join(folder, 'main.mjs'), program)
    expect(await run(process.execPath, ['main.mjs'], folder)).toBe('1 1 invalid\n')
  })
})

describe('env, rewards and renderers', () => {
  it('bring no native code, and little else', async () => {
    const folder = await install(work, tarballsOf(['env', 'rewards', 'renderers']))
    const files = await readdir(join(folder, 'node_modules'), { recursive: true })
    expect(files.filter((file) => /\.(node|so|dylib|dll|wasm)$/.test(file))).toEqual([])
    expect(files.some((file) => file.includes('onnxruntime'))).toBe(false)
    const { apparent, onDisk } = await sizes(join(folder, 'node_modules'))
    expect(apparent).toBeLessThan(12 * 2 ** 20)
    expect(onDisk).toBeLessThan(12 * 2 ** 20)
  })

  it('are at most 400 kB as tarballs, together', async () => {
    const sizes = await Promise.all(['env', 'rewards', 'renderers'].map((name) => stat(tarballs.get(name)!)))
    expect(sizes.reduce((sum, { size }) => sum + size, 0)).toBeLessThan(400_000)
  })
})
