import { describe, expect, it } from 'vitest'
import { perAnswer, type JointRewardArgs } from './joint.js'

const args: JointRewardArgs<{ goal: number }> = {
  completions: [
    ['a', 'bb'],
    ['ccc', 'dddd'],
  ],
  prompts: ['p', 'q'],
  row: { goal: 5 },
  turn: 2,
  history: { prompts: [['x'], ['y']], responses: [['r'], ['s']] },
}
const options = { signal: new AbortController().signal }

describe('perAnswer', () => {
  it('gives each joint answer its own call, with the row, the turn and the history', async () => {
    const seen: unknown[] = []
    const reward = perAnswer<{ goal: number }>(({ completions: [first, second], row, turn, history, index }) => {
      seen.push([first, second, turn, history.responses[1]![0], index])
      return first!.length + second!.length - row.goal
    })
    expect(await reward(args, options)).toEqual([-1, 1])
    expect(seen).toEqual([
      ['a', 'ccc', 2, 's', 0],
      ['bb', 'dddd', 2, 's', 1],
    ])
  })

  it('passes null on', async () => {
    expect(await perAnswer(({ index }) => (index === 0 ? null : 3))(args, options)).toEqual([null, 3])
  })

  it('turns rewards per agent round, [answer][agent] to [agent][answer]', async () => {
    const reward = perAnswer(({ completions, index }) => (index === 1 ? null : completions.map((t) => t.length)))
    expect(await reward(args, options)).toEqual({
      perAgent: [
        [1, null],
        [3, null],
      ],
    })
  })

  it('leaves out the answers for which the judge throws, and tells why', async () => {
    const failure = new Error('the judge is away')
    const told: unknown[] = []
    const onFailure = (answer: number, error: unknown) => told.push([answer, error])
    const shared = perAnswer(({ index }) => (index === 0 ? Promise.reject(failure) : 3))
    expect(await shared(args, { ...options, onFailure })).toEqual([null, 3])
    expect(told).toEqual([[0, failure]])
    const each = perAnswer(({ index }) => (index === 0 ? Promise.reject(failure) : [1, 2]))
    expect(await each(args, options)).toEqual({
      perAgent: [
        [null, 1],
        [null, 2],
      ],
    })
  })

  it('rejects with the reason of an abort, whatever the judge did', async () => {
    const aborted = { signal: AbortSignal.abort(new Error('enough')) }
    await expect(Promise.resolve(perAnswer(({ index }) => index)(args, aborted))).rejects.toThrow('enough')
  })

  it('fails with the first error when the judge throws for all answers', async () => {
    const failure = new TypeError('broken')
    await expect(
      Promise.resolve(
        perAnswer(() => {
          throw failure
        })(args, options),
      ),
    ).rejects.toBe(failure)
  })
})
