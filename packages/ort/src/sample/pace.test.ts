import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { BoundRun } from '../runtime/index.js'
import { Pace, Company } from './pace.js'

/** What the clock says, in milliseconds: only runs take time, so that a busy machine changes nothing. */
let now: number
beforeEach(() => {
  now = 1000
  vi.spyOn(performance, 'now').mockImplementation(() => now)
})
afterEach(() => {
  vi.restoreAllMocks()
})

/** Counts where its runs were made; they take so many milliseconds here, and `away` more elsewhere. */
function runOf(milliseconds: number, away: number, elsewhere: () => Promise<unknown> = async () => {}) {
  const counts = { here: 0, elsewhere: 0 }
  const bound: BoundRun = {
    run: async () => {
      counts.elsewhere++
      now += milliseconds + away
      await elsewhere()
    },
    runSync: () => {
      counts.here++
      now += milliseconds
    },
    dispose: () => {},
  }
  return { bound, counts }
}

async function play(pace: Pace, { bound, counts }: ReturnType<typeof runOf>) {
  for (let i = 0; i < 70; i++) await pace.run(bound)
  return counts
}

it('makes short runs here, also where the change of threads makes them look long', async () => {
  expect(await play(new Pace(), runOf(0.05, 0))).toEqual({ here: 69, elsewhere: 1 })
  expect(await play(new Pace(), runOf(0.05, 1))).toEqual({ here: 68, elsewhere: 2 })
})

it('makes long runs elsewhere, and all where it is told to', async () => {
  expect(await play(new Pace(), runOf(3, 0))).toEqual({ here: 0, elsewhere: 70 })
  expect((await play(new Pace(), runOf(0.8, 0))).here).toBeLessThan(5)
  expect(await play(new Pace(true), runOf(0.01, 0))).toEqual({ here: 0, elsewhere: 70 })
})

it('lets timers have their turn every 8 ms', async () => {
  const pace = new Pace()
  const { bound } = runOf(0.25, 0)
  let turns = 0
  let ended = false
  const turn = () => {
    turns++
    if (!ended) setImmediate(turn)
  }
  setImmediate(turn)
  for (let i = 0; i < 330; i++) await pace.run(bound)
  ended = true
  // The first run was made elsewhere; every 33rd of the others comes after a turn.
  expect(turns).toBe(9)
})

describe('runs of loops side by side', () => {
  const turn = () => new Promise(setImmediate)
  /** Each loop makes 20 runs, on two threads together. */
  const playAll = (company: Company, loops: readonly ReturnType<typeof runOf>[]) => {
    loops.forEach((each) => company.enter(each))
    return Promise.all(
      loops.map(async (each) => {
        for (let i = 0; i < 20; i++) await company.run(each.bound, 2)
        company.leave(each)
        return each.counts
      }),
    )
  }
  const sum = (counts: readonly { here: number; elsewhere: number }[], where: 'here' | 'elsewhere') =>
    counts.reduce((total, count) => total + count[where], 0)

  it('are made here and elsewhere at once, by no more threads than they may', async () => {
    const away = { now: 0, most: 0 }
    const elsewhere = async () => {
      away.most = Math.max(away.most, ++away.now)
      await turn()
      away.now--
    }
    const counts = await playAll(
      new Company(),
      Array.from({ length: 3 }, () => runOf(1, 0, elsewhere)),
    )
    expect(away.most).toBe(1)
    expect(sum(counts, 'here')).toBeGreaterThan(20)
    expect(sum(counts, 'elsewhere')).toBeGreaterThan(10)
  })

  it('are made elsewhere where one would block this thread for long, but for a try now and then', async () => {
    const counts = await playAll(new Company(), [runOf(9, 0, turn), runOf(9, 0, turn)])
    expect(sum(counts, 'here')).toBeLessThan(4)
  })

  it('let loops of another pace give more turns, in which their ends are seen', async () => {
    const company = new Company()
    const pace = new Pace()
    const single = runOf(0.25, 0)
    for (let i = 0; i < 4; i++) await pace.run(single.bound)
    let back = 0
    const other = runOf(1, 0, turn)
    company.enter(other)
    company.enter(single)
    const strides = (async () => {
      for (; back < 20; back++) await company.run(other.bound, 2)
    })()
    for (let i = 0; i < 100; i++) await pace.run(single.bound)
    expect(back).toBeGreaterThan(10)
    await strides
  })

  it('end the wait for one elsewhere that does not come back', async () => {
    vi.restoreAllMocks() // time passes here
    const company = new Company()
    let release = () => {}
    const stuck = runOf(0, 0, () => new Promise<void>((resolve) => (release = resolve)))
    const { bound, counts } = runOf(0, 0)
    company.enter(stuck)
    company.enter(bound)
    const waiting = company.run(stuck.bound, 2)
    for (let i = 0; i < 3; i++) await company.run(bound, 2)
    expect(counts.here).toBe(3)
    release()
    await waiting
  })

  it('fail as the run fails, and go on', async () => {
    const company = new Company()
    company.enter({})
    company.enter({})
    const { bound, counts } = runOf(1, 0)
    const failing: BoundRun = { ...bound, run: () => Promise.reject(new Error('no memory')) }
    await expect(company.run(failing, 2)).rejects.toThrow('no memory')
    await company.run(bound, 2)
    expect(counts).toEqual({ here: 0, elsewhere: 1 })
  })
})
