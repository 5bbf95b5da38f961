import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import type { BoundRun } from '../runtime/index.js'
import { Pace } from './pace.js'

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
function runOf(milliseconds: number, away: number) {
  const counts = { here: 0, elsewhere: 0 }
  const bound: BoundRun = {
    run: async () => {
      counts.elsewhere++
      now += milliseconds + away
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
