import { setTimeout } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { SerialQueue } from './serial.js'

test('jobs run one at a time and in order, also after one that failed', async () => {
  const queue = new SerialQueue()
  const log: string[] = []
  const job = (name: string, fail = false) =>
    queue.run(async () => {
      log.push(`${name} begins`)
      await setTimeout(2)
      log.push(`${name} ends`)
      if (fail) throw new Error(name)
      return name
    })
  const all = Promise.allSettled([job('a'), job('b', true), job('c')])
  expect(queue.busy).toBe(true)
  expect((await all).map((result) => result.status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
  expect(log).toEqual(['a begins', 'a ends', 'b begins', 'b ends', 'c begins', 'c ends'])
  expect(queue.busy).toBe(false)
})

test('a job aborted while it waits rejects at once and never runs', async () => {
  const queue = new SerialQueue()
  const controller = new AbortController()
  const first = queue.run(() => setTimeout(20, 'first'))
  let ran = false
  const second = queue.run(async () => {
    ran = true
  }, controller.signal)
  const third = queue.run(async () => 'third')
  controller.abort(new Error('enough'))
  await expect(second).rejects.toThrow('enough')
  expect(queue.busy).toBe(true)
  expect(await first).toBe('first')
  expect(await third).toBe('third')
  expect(ran).toBe(false)
  await expect(queue.run(async () => 1, controller.signal)).rejects.toThrow('enough')
})
