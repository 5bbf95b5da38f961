import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { graph } from '../graph/index.js'
import { missingKernels } from '../graph/kernel-check.js'
import { loadKernelTables } from '../graph/testing/kernels.js'
import { readModelConfig } from '../models/config.js'
import { FIXTURES } from '../models/testing/fixtures.js'
import { updateGraphs } from './adamw.js'
import { LORA_DEFAULTS } from '../models/lora.js'
import type { GraphLoss } from './losses.js'
import { trainingOutputs } from './training-graph.js'

const fixture = (path: string) =>
  JSON.parse(readFileSync(new URL(`../../../../fixtures/${path}`, import.meta.url), 'utf8')) as Record<string, unknown>
const tables = loadKernelTables()

const LOSSES: GraphLoss[] = [
  { name: 'cross_entropy' },
  { name: 'importance_sampling' },
  { name: 'ppo' },
  { name: 'cispo' },
  { name: 'dro' },
  { name: 'gspo' },
]

describe('every op and dtype of a training graph has a kernel on cpu, cuda and webgpu', () => {
  it.each(FIXTURES)('%s, all losses, all weights and adapters, whole head and chunks', (name) => {
    const config = readModelConfig(fixture(`models/${name}/config.json`))
    for (const loss of LOSSES) {
      for (const training of ['full', LORA_DEFAULTS] as const) {
        for (const headChunks of [1, 3]) {
          const g = graph({ providers: ['cpu', 'cuda', 'webgpu'] })
          const plan = { config, training, file: () => undefined }
          const outputs = trainingOutputs(g, plan, { loss, gradients: true, headChunks })
          expect(missingKernels(Object.values(outputs), tables), loss.name).toEqual([])
        }
      }
    }
  })

  it('the optimiser too', () => {
    for (const outputs of Object.values(updateGraphs())) {
      expect(missingKernels(Object.values(outputs), tables, ['cpu', 'cuda', 'webgpu'])).toEqual([])
    }
  })
})

describe('the head', () => {
  it('check 17: sees nothing but the trained positions', () => {
    const config = readModelConfig(fixture('models/qwen2/config.json'))
    const g = graph()
    const plan = { config, training: 'full', file: () => undefined } as const
    trainingOutputs(g, plan, { loss: { name: 'cross_entropy' }, gradients: true, headChunks: 1 })
    const wide = g.values.filter(({ role, shape }) => role === 'result' && shape.at(-1) === config.vocabSize)
    expect(wide.length).toBeGreaterThan(0)
    for (const { shape } of wide) expect(shape[0]).toBe('n')
  })
})
