import { describe, expect, it } from 'vitest'
import { FailureBudget, attempt } from './failure-budget.js'
import { attemptEach, mapBounded } from './map-bounded.js'

const ok = { ok: true, value: 1 } as const
const failure = (name: string) => ({ ok: false, reason: name, error: new Error(name) }) as const

describe('FailureBudget', () => {
  it('forgets failures after a success', () => {
    const budget = new FailureBudget({ maxConsecutive: 2 })
    for (const one of [failure('a'), ok, failure('b'), ok]) budget.record(one)
    budget.record(failure('c'))
    expect(() => budget.record(failure('d'))).toThrow(/2 reward calls in a row.*the first: Error: c/)
  })

  it('goes on from counts of a resumed run', () => {
    const before = new FailureBudget()
    before.record(failure('a'))
    before.record(failure('b'))
    const after = new FailureBudget({ counts: before.counts })
    expect(() => after.record(failure('c'))).toThrow(/3 reward calls in a row/)
    expect(after.counts).toEqual({ succeeded: 0, failed: 3, consecutive: 3 })
  })

  it('refuses an unknown option with the nearest known', () => {
    expect(() => new FailureBudget({ maxConsecutve: 1 } as object)).toThrow(/did you mean "maxConsecutive"/)
  })
})

describe('attempt', () => {
  const { signal } = new AbortController()

  it('tells what was thrown, whatever it is', async () => {
    const thrown = async (error: unknown) =>
      await attempt(
        () => {
          throw error
        },
        { timeoutSeconds: 1, signal },
      )
    expect(await thrown('text')).toMatchObject({ ok: false, reason: 'text', error: 'text' })
    expect(await thrown(new RangeError('far'))).toMatchObject({ ok: false, reason: 'RangeError: far' })
  })

  it('aborts the call when its time is up', async () => {
    let inner: AbortSignal | undefined
    const result = await attempt(
      (own) => {
        inner = own
        return new Promise(() => {})
      },
      { timeoutSeconds: 0.005, signal },
    )
    expect(result).toMatchObject({ ok: false, error: { code: 'reward_timeout' } })
    expect(inner!.aborted).toBe(true)
  })
})

describe('mapBounded', () => {
  const { signal } = new AbortController()

  it('keeps the order of the items, whatever finishes first', async () => {
    const delays = [8, 1, 4, 2]
    const results = await mapBounded(
      delays,
      async (delay, index) => {
        await new Promise((resolve) => setTimeout(resolve, delay))
        return index
      },
      { concurrency: 2, signal },
    )
    expect(results).toEqual([0, 1, 2, 3])
  })

  it('starts nothing after a failure', async () => {
    const started: number[] = []
    const work = async (item: number) => {
      started.push(item)
      if (item === 1) throw new Error('one')
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    await expect(mapBounded([0, 1, 2, 3], work, { concurrency: 2, signal })).rejects.toThrow('one')
    expect(started).toEqual([0, 1])
  })

  it('stops a run at the same item whatever finishes first', async () => {
    const run = (delay: (item: number) => number) =>
      attemptEach(
        [0, 1, 2, 3, 4, 5],
        async (item) => {
          await new Promise((resolve) => setTimeout(resolve, delay(item)))
          if (item < 3) throw new Error(`item ${item}`)
        },
        { concurrency: 6, timeoutSeconds: 1, signal, budget: new FailureBudget() },
      ).catch((error: Error) => error)
    expect(await run((item) => item)).toMatchObject({ cause: { message: 'item 0' } })
    expect(await run((item) => 6 - item)).toMatchObject({ cause: { message: 'item 0' } })
  })
})
