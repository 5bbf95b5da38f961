import type { Datum } from '@selfplay/engine'
import { createRuntime, loadTrainingClient } from '@selfplay/ort'
import { defineCase, row, type Side } from '../lib/case.js'
import { trainingFlops } from '../lib/flops.js'
import { HIDDEN_256, modelConfig, modelFolder, randomIds } from '../lib/models.js'
import { openProducts } from '../lib/products.js'
import { median, medianSeconds, medianValue } from '../lib/statistics.js'

interface Settings {
  readonly folder: string
  readonly rows: number
  readonly length: number
  /** [rows][length + 1]. */
  readonly ids: readonly (readonly number[])[]
}

/** Largest relative difference of the two losses that still counts as the same computation. */
const SAME_LOSS = 1e-4

/** Products of reference right before and right after each run: the rate of the machine changes from minute to minute. */
const PRODUCTS = 10

async function ours({ folder, ids }: Settings, { threads }: { readonly threads: number }): Promise<Side> {
  const client = await loadTrainingClient(folder, { threads })
  const runtime = await createRuntime({ threads })
  const products = await openProducts(runtime)
  const data = ids.map((row): Datum => {
    const all = Int32Array.from(row)
    return { tokens: all.subarray(0, -1), targets: all.subarray(1) }
  })
  return {
    async run() {
      const before = await products.best(PRODUCTS)
      const started = performance.now()
      const { loss } = await client.forwardBackward(data, { name: 'cross_entropy' })
      const seconds = (performance.now() - started) / 1000
      const gemm = Math.max(before, await products.best(PRODUCTS))
      await client.optimStep({ learningRate: 0 }) // the next run adds to nothing, as the peer's does
      return { seconds, values: { loss, gemm } }
    },
    async close() {
      await client.dispose()
      await products.close()
      await runtime.dispose()
    },
  }
}

export const forwardBackward = defineCase<Settings>({
  name: 'forward-backward',
  title: 'gradients of all weights, hidden 256, 6 layers',
  section: 'speed',
  about:
    'Forward and backward of a Qwen2-like model (hidden 256, 6 layers, 4 heads on 2, intermediate 704, vocabulary 4096, tied head; the ' +
    'same random weights on both sides) on 16 x 128 tokens, the summed cross entropy of all of them, against PyTorch eager (transformers). ' +
    'Both losses must agree to 1e-4. Useful operations: 3 x (2 x parameters of all matrices x tokens + 4 x head size x pairs of tokens, ' +
    'query and key, of the causal half, per head and layer). Floor: these over the best rate of the product of `gemm`, taken again in ten ' +
    'products before and ten after each run, on as many threads; the share is the median over the runs of floor over time.',
  prepare: async (quick) => {
    const [rows, length] = quick ? [2, 32] : [16, 128]
    const ids = Array.from({ length: rows }, (_, i) => [...randomIds(length + 1, HIDDEN_256.vocabSize, i)])
    return { folder: await modelFolder(HIDDEN_256), rows, length, ids }
  },
  ours,
  peer: { script: 'forward_backward.py' },
  rows({ settings, ours: own, peer }) {
    const seconds = medianSeconds(own)
    const other = peer ? medianSeconds(peer) : null
    const flops = trainingFlops(modelConfig(HIDDEN_256), settings.rows, settings.length)
    const least = flops / medianValue(own, 'gemm')
    const share = median(own.samples.map((sample) => flops / sample.values!['gemm']! / sample.seconds))
    const ratio = other === null ? null : other / seconds
    if (peer) {
      const [a, b] = [medianValue(own, 'loss'), medianValue(peer, 'loss')]
      if (!(Math.abs(a - b) <= SAME_LOSS * Math.abs(b)))
        throw new Error(`the losses differ: ours ${a}, the peer's ${b}`)
    }
    return [
      row({
        name: `${settings.rows} x ${settings.length} tokens`,
        unit: 'ms',
        ours: 1000 * seconds,
        peer: other === null ? 'not run' : 1000 * other,
        ratio,
        floor: 1000 * least,
        target: 'ratio >= 1.1',
        met: ratio === null ? null : ratio >= 1.1,
      }),
      row({
        name: 'share of the matrix-product rate, useful operations',
        unit: '%',
        ours: 100 * share,
        peer: other === null ? 'not run' : (100 * least) / other,
        target: '>= 80 %',
        met: share >= 0.8,
      }),
    ]
  },
})
