import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { root, run } from './run.js'

/** An example on the sources, as `npm run example` has it. */
const command = (name: string, ...args: string[]) => [
  `${root}node_modules/tsx/dist/cli.mjs`,
  '-C',
  '@selfplay/source',
  join(root, 'examples', name),
  ...args,
]

const example = (name: string, cwd: string, ...args: string[]) => run(process.execPath, command(name, ...args), cwd)

/** What an example says about a folder that is not there, and how it ends. */
const failureOf = (name: string, env?: NodeJS.ProcessEnv) =>
  run(process.execPath, command(name, './nowhere'), folder, env).then(
    () => `${name} has not failed`,
    (error: unknown) => String(error),
  )

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'selfplay-examples-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

describe('examples of joint tasks', () => {
  it('multi-turn-feedback: two turns, models that are saved, a run that can be inspected', async () => {
    const output = join(folder, 'feedback')
    const text = await example('multi-turn-feedback.ts', folder, '--max-steps', '2', '--output', output)
    expect(text).toMatch(/update 2\/2 {2}turn 1: \d\.\d\d, turn 2: \d\.\d\d/)
    expect(text).toMatch(/before {2}turn 1: \d\.\d\d, turn 2: \d\.\d\d\nafter {3}turn 1: /)
    const tree = await run(
      process.execPath,
      [
        `${root}node_modules/tsx/dist/cli.mjs`,
        '-C',
        '@selfplay/source',
        join(root, 'packages/selfplay/src/cli.ts'),
        'inspect',
        output,
        '--full',
      ],
      folder,
    )
    expect(tree).toMatch(
      /Your last answer had \d+ characters\. The second answer was \d+\.\d times as long as the first; the/,
    )
    expect(tree).toMatch(/turn 2/)
  })

  it('story-pair: both writers are shown the other draft', async () => {
    const text = await example('story-pair.ts', folder, '--max-steps', '1', '--output', join(folder, 'story'))
    expect(text).toMatch(/before: mean reward of turn 2 \d\.\d\d\n {2}plot .*\n {2}scene /)
    expect(text).toMatch(/update 1\/1/)
  })

  const names = ['code-pair', 'length-ratio', 'multi-turn-feedback', 'naming-game', 'pairwise-preference', 'story-pair']

  it('all end in a message and 1 for a folder without a model', async () => {
    const readme = await readFile(join(root, 'examples', 'README.md'), 'utf8')
    expect([...readme.matchAll(/^\| \[([\w-]+)\.ts\]/gm)].map(([, name]) => name!).sort()).toEqual(names)
    await Promise.all(
      names.map(async (name) => {
        const failure = await failureOf(`${name}.ts`)
        expect(failure).toMatch(/\.ts \.\/nowhere ended with 1:\n/)
        expect(failure).toMatch(
          /^error \(checkpoint\)\n {2}\S*nowhere: expected a model folder, got nothing .*Check the path/m,
        )
        expect(failure).not.toMatch(/^ +at /m)
      }),
    )
    expect(await failureOf('length-ratio.ts', { DEBUG: '1' })).toMatch(/^ +at /m)
  })

  it('all tell their options, and refuse a number that is none', async () => {
    await Promise.all(
      names.map(async (name) => {
        const help = await example(`${name}.ts`, folder, '--help')
        expect(help).toMatch(/--output <value> +folder of the run \(default: runs\//)
        const text = await readFile(join(root, 'examples', `${name}.ts`), 'utf8')
        const used = [...text.matchAll(/values(?:\.(\w+)|\['([\w-]+)'\])/g)].map(
          ([, plain, quoted]) => plain ?? quoted!,
        )
        expect(used.filter((option) => !help.includes(`--${option} `))).toEqual([])
      }),
    )
    const failure = await run(process.execPath, command('naming-game.ts', '--pairings', 'x'), folder).catch(String)
    expect(failure).toMatch(/error \(invalid_input\)\n {2}--pairings: expected a number from 0 on, got "x"/)
  })

  it('code-pair: grades programs in the sandbox', async () => {
    const text = await example('code-pair.ts', folder)
    expect(text).toMatch(/both right +reward 1\.00 {2}helper: match, main: match/)
    expect(text).toMatch(/main does it all by itself +reward 0\.65/)
    expect(text).toMatch(/main never ends +reward 0\.30 {2}helper: match, main: timeout/)
    expect(text).toMatch(/no code at all +reward 0\.00/)
  })
})
