import { expect, it } from 'vitest'
import { graph } from '../graph/index.js'
import { missingKernels } from '../graph/kernel-check.js'
import { loadKernelTables } from '../graph/testing/kernels.js'
import { decodeStep, prefill } from './decode.js'
import type { DecoderWeights } from './layers.js'
import { FIXTURES, loadFixture, parameterWeights } from './testing/fixtures.js'
import { logprobModel } from './testing/logprobs.js'
import { modelWeights } from './weights.js'

const tables = loadKernelTables()

it.each(FIXTURES)('every node of the graphs of %s has a kernel', async (name) => {
  const { config } = await loadFixture(name)
  for (const headChunks of [1, 3]) {
    const g = graph({ providers: ['cpu', 'cuda', 'webgpu'] })
    const base = parameterWeights(g)
    const weights: DecoderWeights = {
      ...base,
      lora: ({ name: linear, inFeatures, outFeatures }) => ({
        a: base.weight({ name: `${linear}.a`, shape: [4, inFeatures] }),
        b: base.weight({ name: `${linear}.b`, shape: [outFeatures, 4] }),
        scale: 2,
      }),
    }
    const model = logprobModel(g, config, weights, headChunks)
    const trained = modelWeights(config).map((spec) => g.named(spec.name)!)
    const { gradients, entropy } = model.backward(g.input('d_logprobs', 'float32', ['n']), trained)
    const outputs = [model.logprobs, entropy, model.logSumExp, ...Object.values(gradients.gradients)]
    expect(missingKernels(outputs, tables)).toEqual([])
  }
  for (const build of [decodeStep, prefill]) {
    const g = graph({ providers: ['cpu', 'webgpu'] })
    const { logits, present } = build(g, config, parameterWeights(g))
    const outputs = [logits, ...present.flatMap(({ key, value }) => [key, value])]
    expect(missingKernels(outputs, tables)).toEqual([])
  }
})
