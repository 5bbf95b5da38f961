import { expect, it } from 'vitest'
import type { BoundRun } from '../runtime/index.js'
import { Pace } from './pace.js'

/** Counts where its runs were made; they take so many milliseconds here, and `away` more elsewhere. */
function runOf(milliseconds: number, away: number) {
  const spin = (time: number) => {
    for (const end = performance.now() + time; performance.now() < end;);
  }
  const counts = { here: 0, elsewhere: 0 }
  const bound: BoundRun = {
    run: async () => {
      counts.elsewhere++
      spin(milliseconds + away)
    },
    runSync: () => {
      counts.here++
      spin(milliseconds)
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
  expect((await play(new Pace(), runOf(0.05, 0))).here).toBeGreaterThan(60)
  expect((await play(new Pace(), runOf(0.05, 1))).here).toBeGreaterThan(60)
})

it('makes long runs elsewhere, and all where it is told to', async () => {
  expect(await play(new Pace(), runOf(3, 0))).toEqual({ here: 0, elsewhere: 70 })
  expect((await play(new Pace(), runOf(0.8, 0))).here).toBeLessThan(5)
  expect(await play(new Pace(true), runOf(0.01, 0))).toEqual({ here: 0, elsewhere: 70 })
})

it('lets timers have their turn', async () => {
  const pace = new Pace()
  const { bound } = runOf(0.2, 0)
  let turns = 0
  const timer = setInterval(() => turns++, 1)
  for (let i = 0; i < 300; i++) await pace.run(bound)
  clearInterval(timer)
  expect(turns).toBeGreaterThan(3)
})
