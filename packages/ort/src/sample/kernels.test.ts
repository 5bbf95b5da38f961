import { expect, it } from 'vitest'
import { graph } from '../graph/index.js'
import { missingKernels } from '../graph/kernel-check.js'
import { loadKernelTables } from '../graph/testing/kernels.js'
import { drawFiltered, drawGreedy, drawPlain } from './tail.js'

const tables = loadKernelTables()

it.each([4096, 131])('every node of the draws from %d tokens has a kernel', (vocabSize) => {
  const g = graph({ providers: ['cpu', 'cuda', 'webgpu'] })
  const logits = g.input('logits', 'float32', [4, vocabSize])
  const uniform = g.input('uniform', 'float32', [4, 2])
  const inverseTemperature = g.input('inverse_temperature', 'float32', [4])
  const topK = g.input('top_k', 'int32', [4])
  const topP = g.input('top_p', 'float32', [4])
  const draws = [
    drawPlain(g, logits, uniform, inverseTemperature),
    drawGreedy(g, logits),
    drawFiltered(g, logits, { uniform, inverseTemperature, topK, topP }, 64),
  ]
  for (const draw of draws) expect(missingKernels(Object.values(draw), tables)).toEqual([])
})
