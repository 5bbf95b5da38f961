import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { graph } from '../graph/index.js'
import { createRuntime, type Runtime } from '../runtime/index.js'
import { decoder, decoderInputs } from './decoder.js'
import { Layers } from './layers.js'
import { decoderFeeds, distance, FIXTURES, loadFixture, parameterWeights, runOnce } from './testing/fixtures.js'
import { FINAL_NORM, headWeightName } from './weights.js'

let runtime: Runtime
beforeAll(async () => {
  runtime = await createRuntime({ threads: 2 })
})
afterAll(() => runtime.dispose())

describe.each(FIXTURES)('%s', (name) => {
  it('computes the logits of the published model', async () => {
    const fixture = await loadFixture(name)
    const { config, batch, seq } = fixture
    const g = graph()
    const layers = new Layers(g, config, parameterWeights(g))
    const hidden = decoder(g, config, decoderInputs(g, config), parameterWeights(g))
    const head = layers.weight(headWeightName(config), [config.vocabSize, config.hiddenSize])
    const logits = g.gemm(layers.norm(hidden, FINAL_NORM), head, undefined, { transB: true })
    const feeds = { ...decoderFeeds(config, fixture.ids, seq), ...Object.fromEntries(fixture.weights) }
    const out = await runOnce(runtime, g.outputs({ logits }), feeds, { batch, seq })
    for (const [row, length] of fixture.numbers.lens.entries()) {
      const span = [row * seq * config.vocabSize, (row * seq + length) * config.vocabSize] as const
      expect(distance(out.logits!.subarray(...span), fixture.golden.get('logits')!.subarray(...span))).toBeLessThan(
        1e-4,
      )
    }
  })
})
