import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Graph, graph } from '../graph/index.js'
import { createRuntime, type Runtime } from '../runtime/index.js'
import type { DecoderWeights } from './layers.js'
import {
  decoderFeeds,
  distance,
  type Feed,
  FIXTURES,
  type Fixture,
  frozenWeights,
  loadAdapter,
  loadFixture,
  parameterWeights,
  runOnce,
  weightTensors,
} from './testing/fixtures.js'
import { logprobModel, type LogprobModel } from './testing/logprobs.js'
import { modelWeights } from './weights.js'

let runtime: Runtime
beforeAll(async () => {
  runtime = await createRuntime({ threads: 2 })
})
afterAll(() => runtime.dispose())

/** The errors that are not below 1e-4, by name. */
const wrong = (names: readonly string[], error: (name: string) => number) =>
  Object.fromEntries(names.map((name) => [name, error(name)] as const).filter(([, size]) => !(size < 1e-4)))

/** Every position that predicts a real token, in the order of the golden target_logprobs. */
function scored(fixture: Fixture) {
  const { seq, ids, numbers } = fixture
  const rows: number[] = []
  const golden: number[] = []
  numbers.lens.forEach((length, row) => {
    for (let t = 0; t + 1 < length; t++) {
      rows.push(row * seq + t)
      golden.push(row * (seq - 1) + t)
    }
  })
  const pick = (name: string) => Float32Array.from(golden, (at) => fixture.golden.get(name)![at]!)
  return {
    rows: Int32Array.from(rows),
    targets: Int32Array.from(rows, (at) => ids[at + 1]!),
    inverse_temperature: new Float32Array(rows.length).fill(1),
    n: rows.length,
    pick,
  }
}

type Scored = ReturnType<typeof scored>

/** The derivative of each loss by the log-prob, from the log-prob; weights, advantages and old log-probs are inputs. */
const slopes = {
  ce: (g: Graph) => g.neg(g.input('weights', 'float32', ['n'])),
  importance_sampling: (g: Graph, model: LogprobModel) => g.neg(g.mul(ratio(g, model), advantages(g))),
  ppo: (g: Graph, model: LogprobModel) => {
    const [r, a] = [ratio(g, model), advantages(g)]
    const clipped = g.clip(r, { min: 0.8, max: 1.2 })
    return g.where(g.lessOrEqual(g.mul(r, a), g.mul(clipped, a)), g.neg(g.mul(r, a)), 0)
  },
  cispo: (g: Graph, model: LogprobModel) => {
    return g.neg(g.mul(g.clip(ratio(g, model), { min: 0, max: 4 }), advantages(g)))
  },
}
const advantages = (g: Graph) => g.named('advantages') ?? g.input('advantages', 'float32', ['n'])
const ratio = (g: Graph, { logprobs }: LogprobModel) =>
  g.exp(g.sub(logprobs, g.input('sampler_logprobs', 'float32', ['n'])))

function feedsOf(fixture: Fixture, at: Scored): Record<string, Feed> {
  return {
    ...decoderFeeds(fixture.config, fixture.ids, fixture.seq),
    rows: at.rows,
    targets: at.targets,
    inverse_temperature: at.inverse_temperature,
    weights: at.pick('target_weights'),
    advantages: at.pick('advantages'),
    sampler_logprobs: at.pick('sampler_logprobs'),
  }
}

/** Log-probs and the gradients of a loss by the named parameters. */
async function runLoss(
  fixture: Fixture,
  loss: keyof typeof slopes,
  { headChunks = 1, names }: { readonly headChunks?: number; readonly names?: readonly string[] } = {},
) {
  const { config, batch, seq } = fixture
  const g = graph()
  const model = logprobModel(g, config, parameterWeights(g), headChunks)
  const dLogprobs = slopes[loss](g, model)
  const wanted = (names ?? modelWeights(config).map(({ name }) => name)).map((name) => g.named(name)!)
  const { gradients } = model.backward(dLogprobs, wanted).gradients
  const at = scored(fixture)
  const outputs = g.outputs({ logprobs: model.logprobs, ...gradients })
  const feeds = { ...feedsOf(fixture, at), ...Object.fromEntries(fixture.weights) }
  return { at, out: await runOnce(runtime, outputs, feeds, { batch, seq, n: at.n }) }
}

describe.each(FIXTURES)('%s', (name) => {
  it.each([1, 3])('has the golden log-probs and cross-entropy gradients with %i head chunks', async (headChunks) => {
    const fixture = await loadFixture(name)
    const { at, out } = await runLoss(fixture, 'ce', { headChunks })
    expect(distance(out.logprobs!, at.pick('target_logprobs'))).toBeLessThan(1e-4)
    const weights = at.pick('target_weights')
    const loss = -out.logprobs!.reduce((sum, logprob, i) => sum + logprob * weights[i]!, 0)
    expect(Math.abs(loss / fixture.numbers.ce_loss_sum - 1)).toBeLessThan(1e-4)
    const names = modelWeights(fixture.config).map((weight) => weight.name)
    expect(wrong(names, (each) => distance(out[`${each}.grad`]!, fixture.golden.get(`grad_ce/${each}`)!))).toEqual({})
  })

  it.each(['importance_sampling', 'ppo', 'cispo'] as const)('has the golden gradient of %s', async (loss) => {
    const fixture = await loadFixture(name)
    const weight = 'model.layers.1.mlp.down_proj.weight'
    const { out } = await runLoss(fixture, loss)
    expect(distance(out[`${weight}.grad`]!, fixture.golden.get(`grad_${loss}/${weight}`)!)).toBeLessThan(1e-4)
    const squares = modelWeights(fixture.config).map(({ name: each }) =>
      out[`${each}.grad`]!.reduce((sum, value) => sum + value * value, 0),
    )
    const norm = Math.sqrt(squares.reduce((a, b) => a + b, 0))
    expect(norm / (fixture.numbers[`${loss}_grad_norm`] as number)).toBeCloseTo(1, 4)
  })

  it('has the golden log-probs and gradients of a LoRA adapter on a frozen base', async () => {
    const fixture = await loadFixture(name)
    const { config, batch, seq, golden } = fixture
    const { matrices, lora } = await loadAdapter(fixture)
    const g = graph()
    const weights: DecoderWeights = { ...frozenWeights(g), lora: lora(g) }
    const model = logprobModel(g, config, weights, 1)
    const at = scored(fixture)
    const adapters = [...matrices.keys()].map((key) => g.named(key)!)
    const { gradients } = model.backward(slopes.ce(g), adapters).gradients
    const outputs = g.outputs({ logprobs: model.logprobs, ...gradients })
    const feeds = { ...feedsOf(fixture, at), ...Object.fromEntries(matrices) }
    const options = { weights: weightTensors(runtime, fixture) }
    const out = await runOnce(runtime, outputs, feeds, { batch, seq, n: at.n }, options)
    expect(distance(out.logprobs!, at.pick('lora_target_logprobs'))).toBeLessThan(1e-4)
    expect(matrices.size).toBe(2 * 7 * config.numLayers)
    const wanted = (key: string) => golden.get(`lora_grad_ce/${key.replace('.weight', '.default.weight')}`)!
    expect(wrong([...matrices.keys()], (key) => distance(out[`${key}.grad`]!, wanted(key)))).toEqual({})
  })
})
