import { expect, test } from 'vitest'
import { graph } from './index.js'
import { missingKernels } from './kernel-check.js'
import { ops } from './ops/index.js'
import { loadKernelTables } from './testing/kernels.js'

const tables = loadKernelTables()

test('a graph of covered ops has no misses', () => {
  const g = graph()
  const x = g.input('x', 'float32', ['n', 4])
  const rows = g.gather(x, g.input('ids', 'int32', ['m']))
  expect(missingKernels([g.softmax(g.reshape(rows, ['4*m']))], tables)).toEqual([])
})

test('what a provider lacks is named with its dtypes', () => {
  const g = graph({ providers: ['cpu', 'cuda', 'webgpu'] })
  const erf = g.erf(g.input('d', 'float64', [2]))
  const wide = g.unsqueeze(g.input('ids', 'int64', [2]), [0])
  const integers = g.matmul(g.input('a', 'int32', [2, 2]), g.input('b', 'int32', [2, 2]))
  const misses = missingKernels([erf, wide, integers], tables).map(({ provider, op }) => `${provider} ${op}`)
  expect(misses.toSorted()).toEqual([
    'cpu ai.onnx::Erf',
    'cuda ai.onnx::MatMul',
    'webgpu ai.onnx::Erf',
    'webgpu ai.onnx::MatMul',
    'webgpu ai.onnx::Unsqueeze',
  ])
})

test('the providers of the graph decide, unless others are given', () => {
  const g = graph({ providers: ['cpu', 'webgpu'] })
  const { output } = g.groupQueryAttention(
    {
      query: g.input('q', 'float32', ['b', 1, 8]),
      key: g.input('k', 'float32', ['b', 1, 8]),
      value: g.input('v', 'float32', ['b', 1, 8]),
      pastKey: g.input('pk', 'float32', ['b', 2, 16, 4]),
      pastValue: g.input('pv', 'float32', ['b', 2, 16, 4]),
      lengths: g.input('lengths', 'int32', ['b']),
      totalLength: g.input('total', 'int32', []),
    },
    { numHeads: 2, kvNumHeads: 2 },
  )
  expect(missingKernels([output], tables)).toEqual([])
  expect(missingKernels([output], tables, ['cuda'])).toMatchObject([
    { provider: 'cuda', op: 'com.microsoft::GroupQueryAttention', types: { T: 'float32' } },
  ])
})

test('WebGPU casts are looked up by both dtypes', () => {
  const g = graph({ providers: ['webgpu'] })
  const x = g.input('x', 'int32', [2])
  expect(missingKernels([g.cast(x, 'int64')], tables)).toEqual([])
  expect(missingKernels([g.cast(g.cast(x, 'int64'), 'float32')], tables)).toHaveLength(1)
})

test('the versions of our ops are the newest up to opset 21 that the exact table of the CPU knows', () => {
  for (const [name, { domain, since }] of Object.entries(ops)) {
    const entry = tables.cpu[`${domain || 'ai.onnx'}::${name}`] as { since_versions: number[] }
    expect([name, since]).toEqual([name, Math.max(...entry.since_versions.filter((version) => version <= 21))])
  }
})
