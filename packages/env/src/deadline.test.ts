import { expect, it } from 'vitest'
import { bounded } from './deadline.js'

it('rejects a call that aborts its own signal and never settles', async () => {
  const controller = new AbortController()
  const stuck = () => {
    controller.abort(new Error('from inside'))
    return new Promise<never>(() => {})
  }
  await expect(bounded(stuck, { signal: controller.signal })).rejects.toThrow('from inside')
})

it('rejects at the deadline, and tells the call', async () => {
  let told: unknown
  const stuck = (signal: AbortSignal) =>
    new Promise<never>(() => signal.addEventListener('abort', () => (told = signal.reason)))
  const late = new Error('late')
  const options = { signal: new AbortController().signal, deadlines: [{ ms: 5, expired: () => late }] }
  await expect(bounded(stuck, options)).rejects.toBe(late)
  expect(told).toBe(late)
})
