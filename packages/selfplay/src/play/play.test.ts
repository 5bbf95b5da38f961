import { EventEmitter } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { cli, ended, start } from '../../tests/support/command.js'
import { Interrupted } from '../command/failure.js'
import type { PlayOptions } from './command.js'
import { runPlay } from './run.js'

const GUESS = `
export default ({ seed }) => ({
  initialObservation: () => [{ role: 'user', content: '\\u001b[31mGuess\\u001b[0m\\u001b]0;title\\u0007 a number.' }],
  step: (reply) => {
    const done = Number(reply.content) === seed
    const said = done ? '\\u001b[2JYes.' : 'No.'
    return { reward: done ? 1 : 0, episodeDone: done, nextMessages: [{ role: 'user', content: said }], metrics: { right: Number(done) } }
  },
})`
const CLASS = `
export default class Echo {
  constructor({ seed }) { this.seed = seed }
  initialObservation() { return [{ role: 'user', content: [{ type: 'text', text: 'Say\\u001b[1m it' }] }] }
  step(reply) { return { reward: this.seed, episodeDone: true, nextMessages: [] } }
}`

let cwd = ''
beforeAll(async () => {
  cwd = await mkdtemp(join(tmpdir(), 'selfplay-play-'))
  await writeFile(join(cwd, 'guess.mjs'), GUESS)
  await writeFile(join(cwd, 'echo.mjs'), CLASS)
  await writeFile(join(cwd, 'nothing.mjs'), 'export const x = 1')
  await writeFile(join(cwd, 'wrong.mjs'), 'export default () => ({ step() {} })')
  await writeFile(join(cwd, 'broken.mjs'), 'throw new Error("no database")')
})
afterAll(() => rm(cwd, { recursive: true, force: true }))

async function* lines(...typed: string[]) {
  yield* await Promise.resolve(typed.map((line) => `${line}\n`))
}

async function play(what: string, options: PlayOptions, ...typed: string[]) {
  let out = ''
  const screen = { live: false, colours: false, width: 200, write: (text: string) => void (out += text) }
  const episode = await runPlay(what, options, { screen, input: lines(...typed), cwd, signals: new EventEmitter() })
  return { episode, out }
}

describe('selfplay play', () => {
  it('lets a person play an environment of a module, and shows it without control sequences', async () => {
    const { episode, out } = await play('guess.mjs', { seed: 7 }, '3', '7')
    expect(episode).toMatchObject({ reward: 1, stopReason: 'completed' })
    expect(out).toBe(
      'playing   guess.mjs, seed 7. A line is a reply; a backslash at its end goes on.\n' +
        '\nuser> Guess a number.\n\nyou> \nuser> No.\n\nyou> \nuser> Yes.\n\n' +
        'end       completed, reward 1\n          right 1\n',
    )
  })

  it('takes a class, and content in parts', async () => {
    const { episode, out } = await play('echo.mjs', { seed: 3 }, 'it')
    expect(episode.reward).toBe(3)
    expect(out).toContain('user> Say it\n')
  })

  it('asks again for a line without a move, and takes a move without brackets', async () => {
    const { episode, out } = await play('tic-tac-toe', { seed: 1 }, 'hello', 'I play [5]', '5', '1', '2', '3', '4', '6')
    expect(out.match(/That is none of the moves/g)!.length).toBeGreaterThanOrEqual(2)
    expect(episode.turns[0]!.reply).toBe('I play [5]')
    expect(episode.turns[1]!.reply).toMatch(/^\[\d\]$/)
  })

  it('seats a person where they like', async () => {
    const { out } = await play('kuhn-poker', { seed: 5, seat: 2 }, 'pass', 'pass')
    expect(out).toContain('Moves so far')
    await expect(play('kuhn-poker', { seed: 5, seat: 3 })).rejects.toMatchObject({ code: 'usage' })
    await expect(play('naming-game', { seat: 1 })).rejects.toMatchObject({ code: 'usage' })
    await expect(play('guess.mjs', { seat: 1 })).rejects.toMatchObject({ code: 'usage' })
  })

  it('compares a name with those of three rivals', async () => {
    expect((await play('naming-game', { seed: 2 }, 'x'.repeat(200))).episode.reward).toBe(0.5)
    const { episode, out } = await play('naming-game', { seed: 2 }, 'x')
    expect(episode.reward).toBe(-0.5)
    expect(out.match(/longer than yours/g)).toHaveLength(3)
  })

  it('plays another game each time, and the same one with the same seed', async () => {
    const { out } = await play('naming-game', {}, 'x')
    const seed = Number(/seed (\d+)/.exec(out)![1])
    expect((await play('naming-game', { seed }, 'x')).out).toBe(out)
  })

  it('says what is wrong', async () => {
    const failures = [
      ['chess', 'usage', /neither built in \(kuhn-poker, .*\) nor a file/],
      ['nothing.mjs', 'play_module', /expected a default export that makes a MessageEnv.* got undefined/],
      ['wrong.mjs', 'play_module', /initialObservation and step are needed/],
      ['broken.mjs', 'play_module', /cannot be loaded: no database/],
    ] as const
    for (const [what, code, message] of failures)
      await expect(play(what, {})).rejects.toMatchObject({ code, message: expect.stringMatching(message) as string })
    await expect(play('naming-game', {})).rejects.toMatchObject({ code: 'input_closed' })
  })

  it('ends at Ctrl-C, while it waits for a line', async () => {
    const signals = new EventEmitter()
    const screen = { live: false, colours: false, width: 80, write: () => {} }
    const waits = () => {
      setImmediate(() => signals.emit('SIGINT', 'SIGINT'))
      return new Promise<never>(() => {})
    }
    const input = { [Symbol.asyncIterator]: () => ({ next: waits }) }
    await expect(runPlay('rock-paper-scissors', { seed: 1 }, { screen, input, cwd, signals })).rejects.toBeInstanceOf(
      Interrupted,
    )
    expect(signals.listenerCount('SIGINT')).toBe(0)
  })

  it('is a command that reads what is piped into it', async () => {
    const child = start(cli, ['play', 'guess.mjs', '--seed', '4'], { cwd })
    child.stdin.end('9\n4\n')
    const { code, out } = await ended(child)
    expect(code).toBe(0)
    expect(out).toMatch(/user> No\.[\s\S]*user> Yes\.[\s\S]*end {7}completed, reward 1\n/)
    expect(out).not.toContain('\u001b')
  })
})
