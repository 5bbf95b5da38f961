import { expect, test } from 'vitest'
import { missingKernels } from '../graph/kernel-check.js'
import { loadKernelTables } from '../graph/testing/kernels.js'
import { differentiate } from './index.js'
import { Kit } from './testing/kit.js'
import { specimens } from './testing/zoo.js'

const tables = loadKernelTables()

/** Ops that WebGPU lacks for the dtypes of these specimens; training graphs for it must do without. */
const notOnWebGpu = new Set(['Cast', 'ArgMax'])

test.each(specimens)('%s and its gradient have f32 kernels on cpu, cuda and webgpu', (name, specimen) => {
  for (let seed = 1; seed <= 8; seed++) {
    const kit = new Kit({ seed, precision: 'single', symbols: { b: 2 } })
    const loss = kit.loss(specimen(kit, kit.parameter(kit.shape())))
    const { gradients } = differentiate(loss, kit.parameters, { unreached: 'zeros' })
    const providers = notOnWebGpu.has(name) ? (['cpu', 'cuda'] as const) : (['cpu', 'cuda', 'webgpu'] as const)
    expect(missingKernels([loss, ...Object.values(gradients)], tables, providers)).toEqual([])
  }
})
