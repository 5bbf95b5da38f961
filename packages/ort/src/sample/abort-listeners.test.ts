import { getEventListeners } from 'node:events'
import { expect, it } from 'vitest'
import { AbortListeners } from './abort-listeners.js'

it('puts one listener on a signal for any number of waiters, and none after the last', () => {
  const { signal } = new AbortController()
  const listeners = new AbortListeners()
  const removals = Array.from({ length: 20 }, () => listeners.add(signal, () => {}))
  expect(getEventListeners(signal, 'abort')).toHaveLength(1)
  for (const remove of removals) remove()
  expect(getEventListeners(signal, 'abort')).toHaveLength(0)
})

it('tells those who still wait, with the reason', () => {
  const controller = new AbortController()
  const listeners = new AbortListeners()
  const heard: unknown[] = []
  listeners.add(controller.signal, (reason) => heard.push(['first', reason]))
  listeners.add(controller.signal, () => heard.push('second'))()
  controller.abort('enough')
  expect(heard).toEqual([['first', 'enough']])
})
