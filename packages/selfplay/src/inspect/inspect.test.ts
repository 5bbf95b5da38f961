import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { RunFolderError, type RolloutRecord } from '@selfplay/trainer'
import { main } from '../command/main.js'
import { readUpdate } from './read-update.js'
import { treeText } from './tree-text.js'

const screen = { live: false, colours: false, width: 90, write: () => {} }

function node(
  place: { step: number; path?: number[]; row?: number },
  answers: RolloutRecord['answers'],
): RolloutRecord {
  const { step, path = [], row = 0 } = place
  const completion = (agent: number, k: number) => ({
    text: `agent ${agent} says \u001b[31m${'x'.repeat(k + 1)}\u0007\nand more`,
    tokens: [1],
    logprobs: [-1],
    stopReason: 'stop' as const,
    policyVersion: 0,
  })
  return {
    formatVersion: 1,
    step,
    epoch: 0,
    envStep: 2,
    row,
    turn: path.length + 1,
    path,
    prompts: [0, 1].map((agent) => ({ text: `prompt ${path.join('.')} for ${agent}\u202e`, chat: false, tokens: [1] })),
    completions: [0, 1].map((agent) => answers.map((_, k) => completion(agent, k))),
    roles: null,
    answers,
    jointReturns: [0, 1].map(() => answers.map(({ rewards }) => rewards[0]!)),
    returns: [0, 1].map(() => answers.map(({ rewards }) => rewards[0]!)),
    advantages: [0, 1].map((agent) => answers.map((_, k) => k - 0.5 + agent)),
  }
}

const answer = (k: number, reward: number | null, more: Partial<RolloutRecord['answers'][number]> = {}) => ({
  generations: [k, k],
  rawRewards: [reward, reward],
  rewards: [reward, reward],
  ending: null,
  reason: null,
  ...more,
})

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'selfplay-inspect-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

async function run(name: string, config: unknown, records: readonly unknown[] | string): Promise<string> {
  const directory = join(folder, name)
  await mkdir(directory, { recursive: true })
  await writeFile(join(directory, 'config.json'), JSON.stringify(config))
  const text = typeof records === 'string' ? records : records.map((record) => `${JSON.stringify(record)}\n`).join('')
  await writeFile(join(directory, 'rollouts.jsonl'), text)
  return directory
}

const magrpo = { formatVersion: 1, trainer: 'MAGRPO' }
const root = (step: number) =>
  node({ step }, [
    answer(0, 0.25),
    answer(1, 1, { ending: 'terminated', reason: 'reward 1 > threshold 0.9' }),
    answer(2, null, { ending: 'left_out', reason: 'rewardFunc threw: \u001b]0;title\u0007no' }),
  ])
const child = (step: number) => node({ step, path: [0] }, [answer(0, 0.5, { ending: 'last_turn' })])

describe('selfplay inspect', () => {
  it('shows a tree: prompts, joint answers, rewards, returns, advantages, and who was ended and why', () => {
    const text = treeText([root(1), child(1)], { screen, full: false, all: false })
    expect(text).toMatchInlineSnapshot(`
      "turn 1
          prompt A  prompt for 0
          prompt B  prompt for 1
        1  reward 0.25  return 0.25  advantage A -0.50 B 0.50
            A, 29 chars  agent 0 says x and more
            B, 29 chars  agent 1 says x and more
          turn 2
              prompt A  prompt 0 for 0
              prompt B  prompt 0 for 1
            1  reward 0.50  return 0.50  advantage A -0.50 B 0.50
                A, 29 chars  agent 0 says x and more
                B, 29 chars  agent 1 says x and more
        2  reward 1.00  return 1.00  advantage A 0.50 B 1.50  ended early: reward 1 > threshold 0.9
            A, 30 chars  agent 0 says xx and more
            B, 30 chars  agent 1 says xx and more
        3  reward -  return -  advantage A 1.50 B 2.50  left out: rewardFunc threw: no
            A, 31 chars  agent 0 says xxx and more
            B, 31 chars  agent 1 says xxx and more
      "
    `)
  })

  it('shows the best and the worst of many answers and says how many are left out, or all of them', () => {
    const rewards = [0.5, 0.9, null, 0.1, 0.7, 0.3, 0.8, 0.2, 0.6]
    const many = node(
      { step: 1 },
      rewards.map((reward, k) => answer(k, reward)),
    )
    const text = treeText([many], { screen, full: false, all: false })
    expect([...text.matchAll(/^ {2}(\d+) {2}reward/gm)].map((match) => Number(match[1]))).toEqual([2, 7, 5, 6, 8, 4])
    expect(text).toMatch(/^ {2}\.\.\. 3 more answers: --all shows everything$/m)
    const all = treeText([many], { screen, full: false, all: true })
    expect([...all.matchAll(/^ {2}(\d+) {2}reward/gm)].map((match) => Number(match[1]))).toEqual([
      1, 2, 3, 4, 5, 6, 7, 8, 9,
    ])
    expect(all).not.toContain('--all')
  })

  it('shows whole texts, still without control sequences', () => {
    const text = treeText([root(1)], { screen, full: true, all: false })
    expect(text).toMatch(/agent 0 says x\n +and more\n/)
    expect(Array.from(text).filter((character) => character < ' ' && character !== '\n')).toEqual([])
  })

  it('names the completions of crossed answers, processed rewards, and what a critic expected', () => {
    const crossed = node({ step: 1 }, [
      answer(0, 1, { generations: [0, 1], rewards: [2, 2], ending: 'last_turn' }),
      answer(1, 1, { generations: [1, 0], ending: 'last_turn' }),
    ])
    const text = treeText(
      [
        {
          ...crossed,
          expected: [
            [0.1, 0.2],
            [0.3, 0.4],
          ],
        },
      ],
      { screen, full: false, all: false },
    )
    expect(text).toContain('1 (A1 B2)  reward 1.00  processed 2.00')
    const diagonal = node({ step: 1 }, [answer(0, 1), answer(1, 1, { generations: [0, 1] })])
    expect(treeText([diagonal], { screen, full: false, all: false })).toContain('1 (A1 B1)  reward')
    expect(text).toContain('expected A 0.10 B 0.40')
  })

  it('finds the newest update, or the one that is asked for; a line that is still being written does not count', async () => {
    const directory = await run('two', magrpo, [root(1), child(1), root(2)])
    expect((await readUpdate(directory, undefined)).records).toEqual([root(2)])
    expect((await readUpdate(directory, 1)).records).toEqual([root(1), child(1)])
    const half = JSON.stringify(root(3)).slice(0, 100)
    const torn = await run('torn', magrpo, `${JSON.stringify(root(2))}\n${half}`)
    expect(await readUpdate(torn, undefined)).toMatchObject({ step: 2, summary: { first: 2, last: 2, nodes: 1 } })
  })

  it('takes a line as it was written, with characters that end lines elsewhere', async () => {
    const odd = node({ step: 1 }, [answer(0, 1, { reason: 'a\u2028b\u2029c\u0085d' })])
    const directory = await run('odd', magrpo, [odd, root(2)])
    expect((await readUpdate(directory, 1)).records).toEqual([odd])
  })

  it('takes the newest update that has the prompt', async () => {
    const other = node({ step: 1, row: 4 }, [answer(0, 0.1)])
    const directory = await run('prompts', magrpo, [root(1), other, root(2), root(3)])
    expect(await readUpdate(directory, undefined, { row: 4 })).toMatchObject({ step: 1, records: [root(1), other] })
    expect(await readUpdate(directory, undefined, { row: 0 })).toMatchObject({ step: 3, records: [root(3)] })
    expect((await call('prompts', '--prompt', '5')).out).toContain('update    1 (the newest is 3): 1 prompt')
    expect(await call('prompts', '--prompt', '9')).toMatchObject({
      code: 2,
      err: expect.stringMatching(/no update has/) as string,
    })
    expect((await call('prompts', '--update', '2', '--prompt', '5')).err).toContain(
      'update 2 has no prompt 5: it has 1.',
    )
  })

  it('says what is wrong with a folder', async () => {
    const cases: [string, number | undefined, RegExp][] = [
      [join(folder, 'nothing'), undefined, /holds no run/],
      [await run('rl', { ...magrpo, trainer: 'rl' }, []), undefined, /run of "rl".*reports: open the HTML/],
      [await run('newer', { ...magrpo, formatVersion: 9 }, []), undefined, /layout version 9/],
      [await run('empty', magrpo, []), undefined, /no update has finished/],
      [await run('some', magrpo, [root(1), root(2)]), 7, /from 1 to 2/],
    ]
    for (const [directory, update, message] of cases) {
      const failure = await readUpdate(directory, update).catch((error: unknown) => error)
      expect(failure).toBeInstanceOf(RunFolderError)
      expect((failure as Error).message).toMatch(message)
    }
  })

  const call = async (...args: string[]) => {
    let [out, err] = ['', '']
    const code = await main(['inspect', ...args], {
      stdout: { write: (text: string) => (out += text) },
      stderr: { write: (text: string) => (err += text) },
      env: {},
      signals: { on: () => {}, off: () => {} } as never,
      cwd: () => folder,
      exit: () => {},
    })
    return { code, out, err }
  }

  it('is a command', async () => {
    const directory = await run('command', magrpo, [root(1), child(1), node({ step: 1, row: 4 }, [answer(0, 0.1)])])
    const all = await call('command')
    expect(all).toMatchObject({ code: 0, err: '' })
    expect(all.out).toContain(
      `run       ${directory} (MAGRPO)\nholds     update 1: 3 nodes of 2 prompts over 2 turns, 2.7 KiB\n` +
        'update    1 (the newest is 1): 2 prompts, 3 nodes, 5 joint',
    )
    expect(await call('command', '--all')).toEqual(all)
    const one = await call('command', '--prompt', '5')
    expect(one.out).toContain('1 prompt, 1 node, 1 joint answer')
    expect(await call('command', '--prompt', '2')).toMatchObject({ code: 2 })
    expect((await call('elsewhere')).err).toContain('run_folder')
    expect(await call('command', '--update', '0')).toMatchObject({ code: 2 })
  })

  /** A node whose texts are given: what both agents are shown, and [agent][k]. */
  const texts = (
    place: Parameters<typeof node>[0],
    prompt: string,
    said: readonly (readonly string[])[],
    rewards: readonly (number | null)[],
  ): RolloutRecord => {
    const plain = node(
      place,
      rewards.map((reward, k) => answer(k, reward)),
    )
    return {
      ...plain,
      prompts: plain.prompts.map((shown) => ({ ...shown, text: prompt })),
      completions: plain.completions.map((list, agent) =>
        list.map((completion, k) => ({ ...completion, text: said[agent]![k]! })),
      ),
    }
  }
  const tales = [
    texts(
      { step: 1 },
      'A "dragon" tale:',
      [
        ['a', 'b'],
        ['c', 'd'],
      ],
      [0.2, 0.4],
    ),
    texts(
      { step: 1, row: 1 },
      'A city:',
      [
        ['one', 'two'],
        ['a DRAGON', 'x'],
      ],
      [0.3, 0.9],
    ),
    texts(
      { step: 2, row: 1 },
      'A city:',
      [
        ['(dragon)', 'the\ndragon'],
        ['dragons', '.*'],
      ],
      [0.8, 0.6],
    ),
    texts(
      { step: 3, row: 1 },
      'A city:',
      [
        ['one', 'two'],
        ['three', '\u001b[31m'],
      ],
      [null, 0.5],
    ),
  ]

  it('--find lists the nodes that contain a text, where in them, and what the answers with it were worth', async () => {
    await run('tales', magrpo, tales)
    const { code, out, err } = await call('tales', '--find', 'dragon')
    expect([code, err]).toEqual([0, ''])
    expect(out.slice(out.indexOf('holds'))).toMatchInlineSnapshot(`
      "holds     updates 1 to 3: 4 nodes of 2 prompts, 3.3 KiB
      found     "dragon" in 3 nodes of 2 updates

        update 1  prompt 1  turn 1  prompt            reward 0.30
        update 1  prompt 2  turn 1  answers B 1       reward 0.30  (node 0.60)
        update 2  prompt 2  turn 1  answers A 2, B 1  reward 0.70  (node 0.70)

      look      npx selfplay inspect tales --update 2 --prompt 2
      "
    `)
  })

  it('--find takes text as it is, over line ends, quotes and patterns', async () => {
    await run('tales', magrpo, tales)
    const steps = async (text: string, ...more: string[]) => {
      const { out } = await call('tales', '--find', text, ...more)
      return [...out.matchAll(/^ {2}update (\d+) {2}prompt (\d+)/gm)].map((match) => `${match[1]}.${match[2]}`)
    }
    expect(await steps('"dragon"')).toEqual(['1.1'])
    expect(await steps('THE\nDragon')).toEqual(['2.2'])
    expect(await steps('(dragon)')).toEqual(['2.2'])
    expect(await steps('.*')).toEqual(['2.2'])
    expect(await steps('stopReason')).toEqual([]) // the names of the file are no text of it
    expect(await steps('dragon', '--update', '1')).toEqual(['1.1', '1.2'])
    expect(await steps('dragon', '--prompt', '2')).toEqual(['1.2', '2.2'])
    expect((await call('tales', '--find', 'dragon', '--update', '3')).out).toMatch(
      /found {5}"dragon" in no node of update 3\n$/,
    )
    expect(await call('tales', '--find', 'dragon', '--update', '7')).toMatchObject({ code: 1 })
    expect(await call('tales', '--find', 'dragon', '--full')).toMatchObject({ code: 2 })
    expect(await call('tales', '--find', ' ')).toMatchObject({ code: 2 })
    expect((await call('tales', '--find', '('.repeat(100_000))).err).toMatch(/at most 1000 characters, got 100000/)
  })

  it('--find lists the newest of many nodes, and all of them when asked', async () => {
    const many = Array.from({ length: 25 }, (_, i) => texts({ step: i + 1 }, 'A city:', [['a'], ['b']], [i / 25]))
    await run('many', magrpo, many)
    const some = (await call('many', '--find', 'city')).out
    expect(some).toMatch(/\n {2}update 6 +prompt/)
    expect(some).not.toMatch(/\n {2}update 5 +prompt/)
    expect(some).toContain('  ... 5 earlier: --all lists everything\n')
    expect((await call('many', '--find', 'city', '--all')).out).toMatch(/\n {2}update 1 +prompt/)
  })

  it('--find reads the roles of a single policy', async () => {
    const one = texts(
      { step: 1 },
      'You are both:',
      [
        ['plan: moon. scene: sea', 'x'],
        ['', ''],
      ],
      [0.5, 0.7],
    )
    const roles = {
      prompts: ['A plan:', 'A scene:'],
      texts: [
        ['moon', 'x'],
        ['sea', 'y'],
      ],
      failures: 0,
    }
    await run('roles', magrpo, [
      {
        ...one,
        roles,
        prompts: one.prompts.slice(0, 1),
        completions: one.completions.slice(0, 1),
        answers: one.answers.map((own, k) => ({ ...own, generations: [k] })),
      },
    ])
    expect((await call('roles', '--find', 'sea')).out).toMatch(/answers B 1 {2}reward 0\.50 {2}\(node 0\.60\)/)
    expect((await call('roles', '--find', 'scene: sea')).out).toContain('in no node')
  })
})
