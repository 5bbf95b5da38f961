import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { inspect, promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'

const here = dirname(fileURLToPath(import.meta.url))
const pages = ['../README.md', '../../../docs/environments.md']

interface Snippet {
  readonly name: string
  readonly code: string
  /** What the comments behind `console.log` say that it prints. */
  readonly prints: readonly string[]
}

/** The TypeScript blocks of a page. Each one is a module of its own. */
async function snippetsOf(page: string): Promise<Snippet[]> {
  const text = await readFile(join(here, page), 'utf8')
  return [...text.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code = ''], k) => ({
    name: `${page.replace(/\W+/g, '-').replace(/^-/, '')}-${k}`,
    code,
    prints: [...code.matchAll(/^console\.log\(.*\) \/\/ (.*)$/gm)].map(([, printed]) => printed!),
  }))
}

const snippets = (await Promise.all(pages.map(snippetsOf))).flat()
let folder = ''

beforeAll(async () => {
  folder = await mkdtemp(join(here, 'snippets-'))
  for (const { name, code } of snippets) await writeFile(join(folder, `${name}.ts`), code, 'utf8')
})
afterAll(() => rm(folder, { recursive: true, force: true }))

describe('the snippets of the documentation', () => {
  it('are there', () => {
    expect(snippets.length).toBeGreaterThan(6)
  })

  it('have correct types', async () => {
    const config = { extends: '../../../../tsconfig.base.json', compilerOptions: { noEmit: true }, include: ['*.ts'] }
    await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(config), 'utf8')
    const require = createRequire(import.meta.url)
    const tsc = join(dirname(require.resolve('typescript/package.json')), 'bin', 'tsc')
    const checked = await promisify(execFile)(process.execPath, [tsc, '-p', folder]).then(
      () => '',
      (error: { stdout: string }) => error.stdout,
    )
    expect(checked).toBe('')
  })

  it.each(snippets)('$name prints what it says', async ({ name, prints }) => {
    const printed: string[] = []
    const log = vi.spyOn(console, 'log').mockImplementation((...values: unknown[]) => {
      printed.push(values.map((value) => (typeof value === 'string' ? value : inspect(value))).join(' '))
    })
    try {
      await import(/* @vite-ignore */ pathToFileURL(join(folder, `${name}.ts`)).href)
    } finally {
      log.mockRestore()
    }
    expect(printed.map((line) => line.trim())).toEqual(prints)
  })
})
