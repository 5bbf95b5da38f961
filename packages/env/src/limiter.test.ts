import { getEventListeners } from 'node:events'
import { describe, expect, it } from 'vitest'
import { Limiter } from './limiter.js'
import { neverAborted, onAbort } from './on-abort.js'
import { hang } from './testing/index.js'

const tick = () => new Promise<void>((resolve) => setTimeout(resolve, 1))

describe('Limiter', () => {
  it('runs at most so many jobs at once, first come first served, also after one that throws', async () => {
    const limiter = new Limiter(2)
    const started: number[] = []
    let most = 0
    const job = (k: number) => async () => {
      started.push(k)
      most = Math.max(most, limiter.running)
      await tick()
      if (k === 1) throw new Error('one')
      return k
    }
    const jobs = Array.from({ length: 6 }, (_, k) => limiter.run(job(k), neverAborted))
    const settled = await Promise.allSettled(jobs)
    expect(settled.map((one) => one.status === 'fulfilled')).toEqual([true, false, true, true, true, true])
    expect(started).toEqual([0, 1, 2, 3, 4, 5])
    expect([most, limiter.running]).toEqual([2, 0])
  })

  it('lets an abort empty the queue; jobs of others go on', async () => {
    const limiter = new Limiter(1)
    const controller = new AbortController()
    let finish = () => {}
    const first = limiter.run(() => new Promise<void>((resolve) => (finish = resolve)), neverAborted)
    const waiting = [1, 2].map(() => limiter.run(hang, controller.signal))
    const last = limiter.run(() => Promise.resolve('ran'), neverAborted)
    controller.abort(new Error('stop'))
    for (const one of waiting) await expect(one).rejects.toThrow('stop')
    await expect(limiter.run(hang, controller.signal)).rejects.toThrow('stop')
    finish()
    await first
    expect(await last).toBe('ran')
    expect(limiter.running).toBe(0)
  })
})

describe('onAbort', () => {
  it('puts one listener on a signal however many wait, and none when all have let go', () => {
    const { signal } = new AbortController()
    const releases = Array.from({ length: 100 }, () => onAbort(signal, () => {}))
    expect(getEventListeners(signal, 'abort')).toHaveLength(1)
    for (const release of releases) release()
    expect(getEventListeners(signal, 'abort')).toHaveLength(0)
  })

  it('calls back those that still wait, once', () => {
    const controller = new AbortController()
    const heard: string[] = []
    onAbort(controller.signal, () => heard.push('stays'))
    const release = onAbort(controller.signal, () => heard.push('left'))
    release()
    controller.abort()
    release()
    expect(heard).toEqual(['stays'])
  })
})
