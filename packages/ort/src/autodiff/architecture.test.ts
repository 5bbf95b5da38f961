/** A network that the models folder does not know: GELU MLP, learned positions, LayerNorm, biased attention. */
import { describe, expect, test } from 'vitest'
import { type DType, graph, type Graph, type Value } from '../graph/index.js'
import { missingKernels } from '../graph/kernel-check.js'
import { loadKernelTables } from '../graph/testing/kernels.js'
import { type Fed, runOnce, TestSession } from '../graph/testing/run.js'
import { differentiate, gradientName } from './index.js'
import { uniform } from './testing/kit.js'

const sizes = { vocabulary: 11, positions: 6, width: 8, heads: 2, hidden: 16, layers: 2 }

interface Network {
  readonly g: Graph
  readonly loss: Value
  readonly parameters: readonly Value[]
}

/** Next-token loss of a small GPT-2-like decoder. `float64` replaces GELU by its formula, for lack of a kernel. */
function network(dtype: DType): Network {
  const g = graph()
  const parameters: Value[] = []
  const parameter = (name: string, shape: readonly number[]) => {
    const value = g.parameter(name, dtype, shape)
    parameters.push(value)
    return value
  }
  const { vocabulary, positions, width, heads, hidden, layers } = sizes
  const tokens = g.input('tokens', 'int32', ['batch', positions])
  const targets = g.input('targets', 'int32', ['batch', positions])
  const table = parameter('table', [vocabulary, width])
  const linear = (x: Value, name: string, inner: number, outer: number) =>
    g.add(g.matmul(x, parameter(`${name}.weight`, [inner, outer])), parameter(`${name}.bias`, [outer]))
  const norm = (x: Value, name: string) =>
    g.layerNorm(x, parameter(`${name}.scale`, [width]), parameter(`${name}.bias`, [width]))
  const gelu = (x: Value) => {
    if (dtype === 'float32') return g.gelu(x, { approximate: 'tanh' })
    const inner = g.mul(g.add(x, g.mul(g.pow(x, 3), 0.044715)), Math.sqrt(2 / Math.PI))
    return g.mul(g.mul(x, 0.5), g.add(g.tanh(inner), 1))
  }
  const byHead = (x: Value, order: readonly number[]) =>
    g.transpose(g.reshape(x, ['batch', positions, heads, width / heads]), order)
  const mask = g.trilu(g.full([positions, positions], -1e4, dtype), { upper: true, k: 1 })

  let x = g.add(g.gather(table, tokens), parameter('places', [positions, width]))
  for (let layer = 0; layer < layers; layer++) {
    const name = `layers.${layer}`
    const [q, k, v] = g.split(
      linear(norm(x, `${name}.norm1`), `${name}.qkv`, width, 3 * width),
      [width, width, width],
      { axis: -1 },
    )
    const scores = g.div(g.matmul(byHead(q!, [0, 2, 1, 3]), byHead(k!, [0, 2, 3, 1])), Math.sqrt(width / heads))
    const mixed = g.matmul(g.softmax(g.add(scores, mask)), byHead(v!, [0, 2, 1, 3]))
    const joined = g.reshape(g.transpose(mixed, [0, 2, 1, 3]), ['batch', positions, width])
    x = g.add(x, linear(joined, `${name}.out`, width, width))
    const up = gelu(linear(norm(x, `${name}.norm2`), `${name}.up`, width, hidden))
    x = g.add(x, linear(up, `${name}.down`, hidden, width))
  }
  const logits = g.matmul(norm(x, 'norm'), g.transpose(table))
  return { g, loss: g.softmaxCrossEntropy(logits, targets), parameters }
}

function feeds(parameters: readonly Value[]): Record<string, Fed & { data: number[] }> {
  const random = uniform(5)
  const batch = 3
  const ids = Array.from({ length: batch * (sizes.positions + 1) }, () => Math.floor(random() * sizes.vocabulary))
  const window = (shift: number) => ({
    dims: [batch, sizes.positions],
    data: Array.from({ length: batch * sizes.positions }, (_, i) => {
      const row = Math.floor(i / sizes.positions)
      return ids[row * (sizes.positions + 1) + (i % sizes.positions) + shift]!
    }),
  })
  const weights = parameters.map(({ name, shape }) => {
    const dims = shape as readonly number[]
    const size = dims.reduce((product, dim) => product * dim, 1)
    const around = name.endsWith('.scale') ? 1 : 0
    const data = Array.from({ length: size }, () => Math.fround(around + 0.8 * (random() - 0.5)))
    return [name, { dims, data }] as const
  })
  return { tokens: window(0), targets: window(1), ...Object.fromEntries(weights) }
}

describe('a network of another architecture', () => {
  test('has right gradients', async () => {
    const [double, single] = [network('float64'), network('float32')]
    const inputs = feeds(double.parameters)
    const exact = await runOnce(double.g.outputs(differentiate(double.loss, double.parameters).gradients), inputs)
    const close = await runOnce(single.g.outputs(differentiate(single.loss, single.parameters).gradients), inputs)
    const session = await TestSession.create(double.g.outputs({ loss: double.loss }))
    for (const { name } of double.parameters) {
      const gradient = exact[gradientName(name)]!.data
      const norm = Math.hypot(...gradient)
      const error = Math.hypot(...gradient.map((value, i) => value - close[gradientName(name)]!.data[i]!))
      expect(error).toBeLessThan(1e-5 * Math.max(norm, 1e-2))
      // Along the gradient itself the slope is its squared norm.
      const moved = async (step: number) => {
        const { dims, data } = inputs[name]!
        const there = { dims, data: data.map((value, i) => value + step * gradient[i]!) }
        return (await session.run({ ...inputs, [name]: there }))['loss']!.data[0]!
      }
      const slope = ((await moved(1e-4)) - (await moved(-1e-4))) / 2e-4
      expect(Math.abs(slope - norm ** 2)).toBeLessThan(1e-5 * Math.max(1, norm ** 2))
    }
    await session.dispose()
  })

  test('learns its batch by heart under plain gradient descent', async () => {
    const { g, loss, parameters } = network('float32')
    const inputs = feeds(parameters)
    const session = await TestSession.create(g.outputs({ loss, ...differentiate(loss, parameters).gradients }))
    const losses: number[] = []
    for (let step = 0; step < 150; step++) {
      const result = await session.run(inputs)
      losses.push(result['loss']!.data[0]!)
      for (const { name } of parameters) {
        const { data } = inputs[name]!
        result[gradientName(name)]!.data.forEach((slope, i) => (data[i] = data[i]! - 0.3 * slope))
      }
    }
    await session.dispose()
    expect(losses[0]).toBeGreaterThan(2)
    expect(losses.at(-1)).toBeLessThan(0.2)
  })

  test('has kernels on cpu, cuda and webgpu', () => {
    const { loss, parameters } = network('float32')
    const { gradients } = differentiate(loss, parameters)
    expect(missingKernels([loss, ...Object.values(gradients)], loadKernelTables())).toEqual([])
  })
})
