import { fileURLToPath } from 'node:url'
import { describeTrainingCore } from '@selfplay/engine/testing'
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
