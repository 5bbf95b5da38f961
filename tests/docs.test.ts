import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { packages, root, run, tsx } from './run.js'

/** Where snippets stand while they are checked: inside the repository, so that our packages resolve. */
const work = join(root, 'docs', '.snippets')

interface Snippet {
  readonly document: string
  readonly line: number
  readonly code: string
  readonly file: string
}

const documents = [
  'README.md',
  ...(await readdir(join(root, 'docs'))).filter((name) => name.endsWith('.md')).map((name) => `docs/${name}`),
  ...packages.map((name) => `packages/${name}/README.md`),
]

const texts = await Promise.all(
  documents.map(async (document) => ({ document, text: await readFile(join(root, document), 'utf8') })),
)

const examples = (await readdir(join(root, 'examples'))).filter((name) => name.endsWith('.ts'))

/** These, and what else a person reads in the repository: comments of examples too. */
const all = [
  ...texts,
  ...(await Promise.all(
    [
      'CONTRIBUTING.md',
      'SECURITY.md',
      'THIRD_PARTY.md',
      'bench/README.md',
      'bench/RESULTS.md',
      'examples/README.md',
      'examples/renderer-package/README.md',
      ...examples.map((name) => `examples/${name}`),
    ].map(async (document) => ({ document, text: await readFile(join(root, document), 'utf8') })),
  )),
]

/** What a link can go to in a document, as GitHub names its headings. */
const anchorsOf = (text: string): Set<string> =>
  new Set(
    [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading]) =>
      heading!
        .toLowerCase()
        .replaceAll(/[^\w\- ]/g, '')
        .replaceAll(' ', '-'),
    ),
  )

/** What the comments behind `console.log` say that it prints: `...` stands for anything, and words may follow `:` or `,`. */
const printsOf = (code: string): string[] =>
  [...code.matchAll(/^console\.log\(.*\) \/\/ (.*)$/gm)].map(([, comment]) => comment!)

function says(comment: string, line: string): boolean {
  const escaped = comment.split('...').map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
  return (
    new RegExp(`^${escaped.join('.*')}$`).test(line) || [': ', ', '].some((mark) => comment.startsWith(line + mark))
  )
}

/** Every block of TypeScript is a program of its own. */
const snippets: Snippet[] = texts.flatMap(({ document, text }) =>
  [...text.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map((match, index) => {
    const line = text.slice(0, match.index).split('\n').length
    const file = `${document.replace(/[^a-z0-9]+/gi, '-')}-${index + 1}.ts`
    return { document, line, code: match[1]!, file: join(work, file) }
  }),
)

beforeAll(async () => {
  await rm(work, { recursive: true, force: true })
  await mkdir(work, { recursive: true })
  for (const { file, code } of snippets) await writeFile(file, `${code}\nexport {}\n`)
})
afterAll(() => rm(work, { recursive: true, force: true }))

describe('documentation', () => {
  it('holds programs whose types are right', async () => {
    const options = { extends: '../../tsconfig.base.json', compilerOptions: { noEmit: true }, include: ['*.ts'] }
    await writeFile(join(work, 'tsconfig.json'), JSON.stringify(options))
    expect(await run(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', work], root)).toBe('')
  })

  it.each(snippets)('$document, line $line, runs, and prints what it says', async ({ file, code }) => {
    const cwd = await mkdtemp(join(tmpdir(), 'selfplay-docs-'))
    try {
      const printed = (await tsx(file, cwd)).split('\n').map((line) => line.trim())
      let from = 0
      for (const comment of printsOf(code)) {
        const found = printed.findIndex((line, index) => index >= from && line !== '' && says(comment, line))
        expect(found, `${comment} is not in:\n${printed.join('\n')}`).toBeGreaterThanOrEqual(0)
        from = found + 1
      }
    } finally {
      await rm(cwd, { recursive: true, force: true })
    }
  })

  it('links to files and headings that are there', async () => {
    const broken: string[] = []
    for (const { document, text } of all) {
      const prose = text.replaceAll(/^```[\s\S]*?^```$/gm, '')
      for (const [, target] of prose.matchAll(/\]\((?!https?:|mailto:)([^)\s]+)\)/g)) {
        const [file, heading] = target!.split('#')
        const path = file === '' ? join(root, document) : join(root, document, '..', file!)
        const linked = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) =>
          error.code === 'EISDIR' ? '' : undefined,
        )
        if (linked === undefined || (heading !== undefined && !anchorsOf(linked).has(heading)))
          broken.push(`${document}: ${target}`)
      }
    }
    expect(broken).toEqual([])
  })

  it('names commands and options that exist', async () => {
    const cli = [
      `${root}node_modules/tsx/dist/cli.mjs`,
      '-C',
      '@selfplay/source',
      join(root, 'packages/selfplay/src/cli.ts'),
    ]
    const help = (command: string) => run(process.execPath, [...cli, command, '--help'], root)
    const commands = ['train', 'inspect', 'play', 'doctor']
    const options = new Map(await Promise.all(commands.map(async (name) => [name, await help(name)] as const)))
    const wrong: string[] = []
    let seen = 0
    for (const { document, text } of all) {
      for (const [line, command, rest] of text.matchAll(/npx selfplay (\w+)([^\n`#|]*)/g)) {
        seen++
        const flags = [...rest!.matchAll(/ (--[a-z-]+)/g)].map(([, flag]) => flag!)
        const known = options.get(command!)
        if (known === undefined || flags.some((flag) => !known.includes(`${flag} `))) wrong.push(`${document}: ${line}`)
      }
      // npm takes options for its own unless there is a -- before them.
      for (const [line] of text.matchAll(/npm run example(?! --)[^\n`#]* --[a-z][^\n`]*/g))
        wrong.push(`${document}: ${line}`)
    }
    expect(seen).toBeGreaterThan(10)
    expect(wrong).toEqual([])
  })
})
