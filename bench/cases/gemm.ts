import { createRuntime, graph, type Runtime } from '@selfplay/ort'
import { defineCase, row, type Side } from '../lib/case.js'
import { filled, K, leastSeconds, M, N, openProducts, PRODUCT_FLOPS } from '../lib/products.js'
import { medianValue } from '../lib/statistics.js'

/** Float32 numbers per array of the bandwidth test: 256 MiB, far beyond any cache. */
const LONG = 2 ** 26

interface Settings {
  readonly repetitions: number
  readonly long: number
}

/** Bytes read and written per second: the better of a sum (reads one array) and an addition (reads two, writes one). */
async function bandwidth(runtime: Runtime, repetitions: number, long: number): Promise<number> {
  const width = 4096
  const dims = [long / width, width]
  const sums = graph()
  const additions = graph()
  const sum = await runtime.createSession(
    sums.outputs({ y: sums.reduceSum(sums.input('a', 'float32', dims), { axes: [1] }) }),
  )
  const addition = await runtime.createSession(
    additions.outputs({
      y: additions.add(additions.input('a', 'float32', dims), additions.input('b', 'float32', dims)),
    }),
  )
  const [a, b, y] = [filled(runtime, dims), filled(runtime, dims), filled(runtime, dims)]
  const reading = await leastSeconds(repetitions, async () => (await sum.run({ a }, { y: null }))['y']!.dispose())
  const adding = await leastSeconds(repetitions, () => addition.run({ a, b }, { y }))
  await Promise.all([sum.dispose(), addition.dispose()])
  for (const tensor of [a, b, y]) tensor.dispose()
  return Math.max((4 * long) / reading, (3 * 4 * long) / adding)
}

async function ours({ repetitions, long }: Settings, { threads }: { readonly threads: number }): Promise<Side> {
  const runtime = await createRuntime({ threads })
  return {
    async run() {
      const products = await openProducts(runtime)
      const gemm = await products.best(repetitions)
      await products.close()
      return { seconds: PRODUCT_FLOPS / gemm, values: { gemm, bandwidth: await bandwidth(runtime, 5, long) } }
    },
    close: () => runtime.dispose(),
  }
}

/** The floors that all other cases are held against: measured first, in every call. */
export const gemm = defineCase<Settings>({
  name: 'gemm',
  title: 'the machine: matrix products and memory',
  section: 'speed',
  about:
    `Best of 30 products of ${M}x${K} with ${K}x${N} in float32 by onnxruntime (PyTorch beside it), and the bandwidth of memory: the ` +
    'better of a sum over 256 MiB and an addition of two such arrays, counting bytes read and written. The medians of the runs are the ' +
    'floors of the other cases.',
  warmups: 0,
  prepare: async (quick) => (quick ? { repetitions: 5, long: LONG / 8 } : { repetitions: 30, long: LONG }),
  ours,
  peer: { script: 'gemm.py' },
  rows({ ours: own, peer }) {
    const rate = medianValue(own, 'gemm') / 1e9
    const other = peer ? medianValue(peer, 'gemm') / 1e9 : null
    return [
      row({
        name: `${M}x${K}x${N}, float32`,
        unit: 'GFLOP/s',
        ours: rate,
        peer: other ?? 'not run',
        ratio: other === null ? null : rate / other,
      }),
      row({ name: 'memory bandwidth', unit: 'GB/s', ours: medianValue(own, 'bandwidth') / 1e9 }),
    ]
  },
})
