import { fileURLToPath } from 'node:url'
import type { Loss } from '@selfplay/engine'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { loadTrainingClient } from '../load.js'
import { createRuntime, type Runtime } from '../runtime/index.js'

const qwen2 = fileURLToPath(new URL('../../../../fixtures/models/qwen2', import.meta.url))
const data = [{ tokens: Int32Array.of(1, 2, 3, 4), targets: Int32Array.of(2, 3, 4, 5) }]
const loss: Loss = { name: 'cross_entropy' }

let runtime: Runtime
beforeAll(async () => {
  runtime = await createRuntime({ threads: 1 })
})
afterAll(() => runtime.dispose())

const turn = () => new Promise(setImmediate)

it('the graph of a loss is compiled ahead, once, and gives the same gradients', async () => {
  const [told, untold] = await Promise.all([0, 1].map(() => loadTrainingClient(qwen2, { runtime, contextLength: 64 })))
  const create = vi.spyOn(runtime, 'createSession')
  told!.prepare!(loss)
  told!.prepare!(loss)
  expect(create).not.toHaveBeenCalled()
  await turn()
  await turn()
  expect(create).toHaveBeenCalledTimes(1)
  const ahead = await told!.forwardBackward(data, loss)
  expect(create).toHaveBeenCalledTimes(1)
  create.mockRestore()
  expect(ahead).toEqual(await untold!.forwardBackward(data, loss))
  await Promise.all([told!.dispose(), untold!.dispose()])
})

it('where micro-batches run side by side, the graph is compiled for that', async () => {
  const twoThreads = await createRuntime({ threads: 2 })
  const client = await loadTrainingClient(qwen2, { runtime: twoThreads, contextLength: 64 })
  const long = Array.from({ length: 16 }, () => ({ tokens: new Int32Array(40), targets: new Int32Array(40) }))
  const create = vi.spyOn(twoThreads, 'createSession')
  client.prepare!(loss)
  await turn()
  expect(create).toHaveBeenCalledTimes(1)
  await client.forwardBackward(long, loss)
  expect(create).toHaveBeenCalledTimes(1)
  expect(create.mock.calls[0]![1]).toMatchObject({ threads: 1, concurrent: true })
  await client.dispose()
  await twoThreads.dispose()
})

it('nothing is compiled for a client that is gone, nor for a loss that is no graph', async () => {
  const client = await loadTrainingClient(qwen2, { runtime, contextLength: 64 })
  const create = vi.spyOn(runtime, 'createSession')
  client.prepare!({ name: 'custom', compute: () => ({ loss: 0, gradient: [] }) })
  client.prepare!(loss)
  await client.dispose()
  await turn()
  expect(create).not.toHaveBeenCalled()
  create.mockRestore()
})
