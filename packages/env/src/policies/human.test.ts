import { textOf, user } from '@selfplay/renderers'
import { describe, expect, it } from 'vitest'
import { playEnv } from '../play-env.js'
import { mockMessageEnv } from '../testing/index.js'
import { human } from './human.js'

const twoTurns = () =>
  mockMessageEnv((reply, { turn }) => ({
    reward: textOf(reply).length,
    episodeDone: turn === 1,
    nextMessages: turn === 1 ? [] : [user('\u001b[2Jagain\u0007\u202e?')],
  }))

function terminal(...chunks: (string | Uint8Array)[]) {
  const shown: string[] = []
  async function* input() {
    yield* await Promise.resolve(chunks)
  }
  return { shown, policy: human({ input: input(), output: { write: (text) => shown.push(text) } }) }
}

describe('human', () => {
  it('plays the same environment, line by line', async () => {
    const { policy, shown } = terminal('on', 'e\ntw', 'o and \\\r\nmore\n')
    const episode = await playEnv(twoTurns(), policy)
    expect(episode.turns.map((turn) => turn.reply)).toEqual(['one', 'two and \nmore'])
    expect(shown.join('')).toContain('user> go')
  })

  it('shows model text without control characters and direction marks', async () => {
    const { policy, shown } = terminal('a\nb')
    await playEnv(twoTurns(), policy)
    expect(shown.join('')).toContain('user> [2Jagain?\n')
  })

  it('reads characters that are cut over chunks', async () => {
    const bytes = new TextEncoder().encode('é\nx\n')
    const { policy } = terminal(bytes.slice(0, 1), bytes.slice(1))
    expect((await playEnv(twoTurns(), policy)).turns[0]!.reply).toBe('é')
  })

  it('says so when the input ends', async () => {
    await expect(playEnv(twoTurns(), terminal('one\n').policy)).rejects.toMatchObject({ code: 'input_closed' })
  })

  it('lets go when aborted', async () => {
    const controller = new AbortController()
    const input: AsyncIterable<string> = { [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => {}) }) }
    const policy = human({ input, output: { write: () => true } })
    const playing = playEnv(twoTurns(), policy, { signal: controller.signal })
    controller.abort(new Error('ctrl-c'))
    await expect(playing).rejects.toThrow('ctrl-c')
  })
})
