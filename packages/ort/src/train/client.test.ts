import { fileURLToPath } from 'node:url'
import { describeTrainingCore } from '@selfplay/engine/testing'
import { expect, it } from 'vitest'
import { loadTrainingClient } from '../load.js'
import { createRuntime } from '../runtime/index.js'

const qwen2 = fileURLToPath(new URL('../../../../fixtures/models/qwen2', import.meta.url))

describeTrainingCore('full fine-tuning on onnxruntime', {
  makeClient: () => loadTrainingClient(qwen2, { threads: 1, slots: 4, contextLength: 64 }),
})

describeTrainingCore('a low-rank adapter on onnxruntime', {
  makeClient: () =>
    loadTrainingClient(qwen2, { threads: 1, slots: 4, contextLength: 64, training: { rank: 4, alpha: 8 }, seed: 3 }),
})

describeTrainingCore("full fine-tuning on onnxruntime-node's own binding", {
  makeClient: async () =>
    loadTrainingClient(qwen2, {
      runtime: await createRuntime({ kind: 'binding', threads: 1 }),
      slots: 4,
      contextLength: 64,
    }),
})

it.each(['sampler', 'snapshot'] as const)('%s rejects when it is aborted behind a call that runs', async (name) => {
  const client = await loadTrainingClient(qwen2, { threads: 1, slots: 4, contextLength: 64 })
  const [abort, reason] = [new AbortController(), new Error('enough')]
  const datum = { tokens: Int32Array.of(1, 2, 3), targets: Int32Array.of(2, 3, 4) }
  const running = client.forwardBackward([datum], { name: 'cross_entropy' })
  const waiting = client[name]({ signal: abort.signal })
  abort.abort(reason)
  const [first, second] = await Promise.allSettled([running, waiting])
  expect(first.status).toBe('fulfilled')
  expect(second).toEqual({ status: 'rejected', reason })
  await client.dispose()
})
