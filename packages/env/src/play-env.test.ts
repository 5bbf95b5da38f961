import { assistant, getRenderer, system, textOf, toolResult, user, type Message } from '@selfplay/renderers'
import { describe, expect, it } from 'vitest'
import type { MessageEnv, MessageStepResult } from './message-env.js'
import { playEnv } from './play-env.js'
import { modelPolicy } from './policies/model.js'
import { scripted } from './policies/scripted.js'
import { byteTokenizer, hang, mockMessageEnv, scriptedSampler } from './testing/index.js'

class NamingGame implements MessageEnv {
  readonly topic: string
  constructor(topic: string) {
    this.topic = topic
  }
  initialObservation() {
    return [system('You are a creative naming expert.'), user(`Invent a creative name for a ${this.topic}.`)]
  }
  step(reply: Message): MessageStepResult {
    return { reward: textOf(reply).length, episodeDone: true, nextMessages: [] }
  }
}

const go = (nextMessages: readonly Message[], rest: Partial<MessageStepResult> = {}): MessageStepResult => ({
  reward: 0,
  episodeDone: false,
  nextMessages,
  ...rest,
})

describe('playEnv', () => {
  it('tests a task with a script', async () => {
    const episode = await playEnv(new NamingGame('coffee shop'), scripted(['Bean There']))
    expect(episode).toMatchObject({ reward: 10, stopReason: 'completed', turns: [{ reply: 'Bean There', reward: 10 }] })
    expect(episode.transcript.at(-1)).toEqual(assistant('Bean There'))
  })

  it('check 26: keeps the reward of every turn', async () => {
    const rewards = [1, 0, 2]
    const env = mockMessageEnv((_, { turn }) => go([user('next')], { reward: rewards[turn]!, episodeDone: turn === 2 }))
    const episode = await playEnv(env, scripted(['a', 'b', 'c']))
    expect(episode.turns.map((turn) => turn.reward)).toEqual(rewards)
    expect(episode.reward).toBe(3)
  })

  it('tells the policy what is new, and the environment the whole transcript', async () => {
    const news: string[][] = []
    const sizes: number[] = []
    const env = mockMessageEnv((_, { turn, transcript }) => {
      sizes.push(transcript.length)
      return go([user(`answer ${turn}`), user('more')], { episodeDone: turn === 1 })
    })
    await playEnv(env, ({ newMessages, turn }) => {
      news.push(newMessages.map(textOf))
      return `reply ${turn}`
    })
    expect(news).toEqual([['go'], ['answer 0', 'more']])
    expect(sizes).toEqual([2, 5])
  })

  it('refuses a key of a result that there is not, with the nearest known one', async () => {
    const result = { reward: 1, episodeDone: true, nextMessages: [], metric: { letters: 1 } }
    await expect(
      playEnv(
        mockMessageEnv(() => result),
        scripted(['a']),
      ),
    ).rejects.toThrow('MessageEnv.step (turn 0): a result has no "metric": did you mean "metrics"?')
  })

  it('a script may be a function of the turn, and nothing but that or a list', async () => {
    const { transcript } = await playEnv(
      mockMessageEnv(),
      scripted(({ turn }) => `reply ${turn}`),
    )
    expect(transcript.map(textOf)).toEqual(['go', 'reply 0'])
    expect(() => scripted('abc' as never)).toThrow('expected a list of replies, or a function of the turn, got string')
  })

  it('refuses an option that it does not have, with the nearest known one', async () => {
    const playing = playEnv(mockMessageEnv(), scripted(['a']), { maxTurn: 3 } as never)
    await expect(playing).rejects.toThrow(/playEnv has no option "maxTurn".*maxTurns/)
    expect(() => modelPolicy({ maxToken: 3 } as never)).toThrow(/modelPolicy has no option "maxToken".*maxTokens/)
  })

  it('stops at maxTurns and lets the environment grade what was reached', async () => {
    const env: MessageEnv = {
      ...mockMessageEnv(() => go([user('more')], { reward: 1 })),
      finish: (reason, { transcript }) => ({ reward: 10, logs: { reason, length: transcript.length } }),
    }
    const episode = await playEnv(env, () => 'x', { maxTurns: 2 })
    expect(episode).toMatchObject({ reward: 12, stopReason: 'max_turns' })
    expect(episode.turns[1]!.logs).toEqual({ reason: 'max_turns', length: 5 })
  })

  it('throws the error of the environment as it is, and closes it', async () => {
    let closed = 0
    const env: MessageEnv = {
      ...mockMessageEnv(() => {
        throw new TypeError('my bug')
      }),
      close: () => void closed++,
    }
    await expect(playEnv(env, scripted(['x']))).rejects.toThrow(new TypeError('my bug'))
    expect(closed).toBe(1)
  })

  it('throws when the script ends before the episode', async () => {
    const env = mockMessageEnv(() => go([user('more')]))
    await expect(playEnv(env, scripted(['x']))).rejects.toMatchObject({ code: 'script_exhausted' })
  })

  it('check 45: an environment or a policy that never answers ends at its deadline, and when aborted', async () => {
    const hangs = mockMessageEnv(hang)
    const soon = { envTimeoutSeconds: 0.02, replyTimeoutSeconds: 0.02 }
    await expect(playEnv(hangs, scripted(['x']), soon)).rejects.toMatchObject({ code: 'env_timeout' })
    await expect(playEnv(mockMessageEnv(), hang, soon)).rejects.toMatchObject({ code: 'policy_timeout' })
    const stop = new Error('ctrl-c')
    const controller = new AbortController()
    const playing = playEnv(mockMessageEnv(), hang, { signal: controller.signal })
    controller.abort(stop)
    await expect(playing).rejects.toBe(stop)
  })
})

describe('the contract of an environment', () => {
  const play = (step: (transcript: readonly Message[]) => MessageStepResult, initial?: readonly Message[]) =>
    playEnv(
      mockMessageEnv((_, { transcript }) => step(transcript), initial),
      scripted(['x', 'y']),
    )

  it('refuses the whole history where only what is new belongs', async () => {
    const whole = { code: 'full_history_returned' }
    await expect(play((seen) => go([...seen, user('new')]))).rejects.toMatchObject(whole)
    await expect(play((seen) => go([...seen], { episodeDone: true }))).rejects.toMatchObject(whole)
    // a copy, and one that forgot the reply
    await expect(play((seen) => go([...structuredClone(seen), user('new')]))).rejects.toMatchObject(whole)
    await expect(play((seen) => go([...seen.slice(0, -1), user('n')]), [system('s'), user('u')])).rejects.toMatchObject(
      whole,
    )
  })

  it('allows the same message again', async () => {
    const env = mockMessageEnv((_, { turn }) => go([user('go')], { episodeDone: turn === 1 }))
    const { transcript } = await playEnv(env, scripted(['x', 'y']))
    expect(transcript.map(textOf)).toEqual(['go', 'x', 'go', 'y', 'go'])
  })

  it('lets tool results follow a reply', async () => {
    const { transcript } = await playEnv(
      mockMessageEnv((_, { turn }) => go([toolResult('7', { name: 'f' })], { episodeDone: turn === 1 })),
      scripted(['x', 'y']),
    )
    expect(transcript.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'assistant', 'tool'])
  })

  it.each([
    ['no message while it goes on', () => go([]), /nothing is said to the policy/],
    ['an assistant message', () => go([assistant('me'), user('u')]), /nextMessages\.0 is from the assistant/],
    ['a reward that is no number', () => go([user('u')], { reward: Number.NaN }), /finite number, got NaN/],
    ['no episodeDone', () => ({ reward: 0, nextMessages: [user('u')] }), /episodeDone/],
    ['a message without a role', () => go([{ content: 'x' } as Message]), /message 0 is not/],
    ['an unknown stop reason', () => go([], { episodeDone: true, stopReason: 'tired' as 'completed' }), /"tired"/],
    ['an infinite metric', () => go([user('u')], { metrics: { speed: Infinity } }), /"speed"/],
    ['a stop metric', () => go([user('u')], { metrics: { 'stop/x': 1 } }), /return stopReason/],
    ['nothing at all', () => undefined, /expected \{reward/],
  ])('refuses %s', async (_, step, message) => {
    const error = await play(step as () => MessageStepResult).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'env_contract' })
    expect((error as Error).message).toMatch(message)
  })

  it('refuses a conversation that begins with nothing or with the policy', async () => {
    await expect(play(() => go([]), [])).rejects.toThrow(/at least one message/)
    await expect(play(() => go([]), [assistant('a')])).rejects.toThrow(/would answer itself/)
  })
})

describe('modelPolicy', () => {
  const renderer = getRenderer('chatml', byteTokenizer(), { defaultSystem: null })
  const model = (script: Parameters<typeof scriptedSampler>[1], maxTokens?: number) =>
    modelPolicy({ renderer, sample: scriptedSampler(renderer, script), ...(maxTokens ? { maxTokens } : {}) })

  it('plays the same task, and gives the tokens with the reply', async () => {
    const env = mockMessageEnv((reply, { turn }) =>
      go([user('more')], { episodeDone: turn === 1, reward: textOf(reply).length }),
    )
    const episode = await playEnv(env, model(['one', 'three']))
    expect(episode.reward).toBe(8)
    const [first, second] = episode.turns.map(
      (turn) => turn.reply as { observation: Int32Array; action: { tokens: Int32Array } },
    )
    const before = [...first!.observation, ...first!.action.tokens]
    expect([...second!.observation].slice(0, before.length)).toEqual(before)
  })

  it('does not hide how a reply ended', async () => {
    const env = () => new NamingGame('boat')
    expect(await playEnv(env(), model(['too long'], 3))).toMatchObject({ stopReason: 'max_tokens', reward: 0 })
    expect(await playEnv(env(), model([{ text: 'x', end: 'none' }]))).toMatchObject({ stopReason: 'parse_error' })
  })

  it('serves several episodes at once', async () => {
    const policy = model((_, prompt) => `${prompt.length}`)
    const env = (text: string) =>
      mockMessageEnv((_, { turn }) => go([user('more')], { episodeDone: turn === 2 }), [user(text)])
    const [a, b] = await Promise.all([playEnv(env('a'), policy), playEnv(env('bbbb'), policy)])
    const alone = await playEnv(
      env('bbbb'),
      model((_, prompt) => `${prompt.length}`),
    )
    expect(b.transcript).toEqual(alone.transcript)
    expect(a.transcript).not.toEqual(b.transcript)
  })
})
