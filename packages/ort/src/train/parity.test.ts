import type { Datum } from '@selfplay/engine'
import { referenceLoss } from '@selfplay/engine/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openAdapterFolder } from '../checkpoint/index.js'
import { FIXTURES, loadFixture, type Fixture } from '../models/testing/fixtures.js'
import { modelWeights } from '../models/weights.js'
import { createRuntime, type Runtime } from '../runtime/index.js'
import { ModelCore } from './model-core.js'
import { companions, disposeAll, type Companions, type Parameter } from './parameters.js'
import { runPasses } from './passes.js'
import type { GraphLoss } from './losses.js'
import { checkLora, loraWeights } from '../models/lora.js'

const TOLERANCE = 1e-4
const OPTIONS = { gradients: true, activationBytes: 2 ** 30 }

/** Norm of the difference over the norm; absolute where the norm is tiny. */
function error(got: ArrayLike<number>, want: ArrayLike<number>): number {
  expect(got.length).toBe(want.length)
  let [difference, norm] = [0, 0]
  for (let i = 0; i < want.length; i++) {
    difference += (got[i]! - want[i]!) ** 2
    norm += want[i]! ** 2
  }
  return Math.sqrt(difference) / (Math.sqrt(norm) < 1e-5 ? 1 : Math.sqrt(norm))
}

/** The three right-padded sequences of a fixture, with its weights, advantages and sampler log-probs. */
function fixtureData({ ids, batch, seq, golden, numbers }: Fixture, weighting: 'target_weights' | 'ones'): Datum[] {
  const T = seq - 1
  const row = (name: string, b: number) => golden.get(name)!.slice(b * T, (b + 1) * T)
  return Array.from({ length: batch }, (_, b) => {
    const tokens = ids.slice(b * seq, b * seq + seq)
    const real = Float32Array.from({ length: T }, (_, t) => (t + 1 < numbers.lens[b]! ? 1 : 0))
    return {
      tokens: tokens.slice(0, -1),
      targets: tokens.slice(1),
      weights: weighting === 'ones' ? real : row('target_weights', b).map((w, t) => w * real[t]!),
      advantages: row('advantages', b),
      samplerLogprobs: row('sampler_logprobs', b),
    }
  })
}

let runtime: Runtime
beforeAll(async () => {
  runtime = await createRuntime({ threads: 1 })
})
afterAll(() => runtime.dispose())

describe.each(FIXTURES)('%s trains as PyTorch does', (name) => {
  let fixture: Fixture
  let core: ModelCore
  let parameters: Parameter[]

  beforeAll(async () => {
    fixture = await loadFixture(name)
    const { folder, config } = fixture
    core = await ModelCore.create({ runtime, folder, config, training: 'full', contextLength: 64 })
    core.retain()
  })
  afterAll(() => core.release())

  const freshWeights = () => {
    parameters = modelWeights(fixture.config).map(({ name: weight, shape }) => ({
      name: weight,
      shape,
      weight: runtime.tensor('float32', fixture.weights.get(weight)!.slice(), shape),
    }))
    return parameters
  }

  it('cross_entropy: log-probs and the gradient of every parameter', async () => {
    const data = fixtureData(fixture, 'target_weights')
    const result = await runPasses(core, freshWeights(), data, { name: 'cross_entropy' }, OPTIONS)
    expect(Math.abs(result.loss / fixture.numbers.ce_loss_sum - 1)).toBeLessThan(TOLERANCE)
    for (const [parameter, gradient] of result.gradients!) {
      expect(error(gradient.data!, fixture.golden.get(`grad_ce/${parameter}`)!), parameter).toBeLessThan(TOLERANCE)
    }
    const wanted = fixture.golden.get('target_logprobs')!
    const trained = result.logprobs.flatMap((row, b) =>
      Array.from(row, (logprob, t) => Math.abs(logprob - wanted[b * row.length + t]!)).filter(
        (_, t) => data[b]!.weights![t] !== 0,
      ),
    )
    expect(trained.length).toBeGreaterThan(0)
    expect(Math.max(...trained)).toBeLessThan(TOLERANCE)
  })

  it('cross_entropy: the same gradients with the head in chunks and one sequence per micro-batch', async () => {
    const data = fixtureData(fixture, 'target_weights')
    const original = core.session.bind(core)
    core.session = (loss, gradients) => original(loss, gradients, 4)
    const result = await runPasses(
      core,
      freshWeights(),
      data,
      { name: 'cross_entropy' },
      { ...OPTIONS, activationBytes: 1 },
    )
    core.session = original
    for (const [parameter, gradient] of result.gradients!) {
      expect(error(gradient.data!, fixture.golden.get(`grad_ce/${parameter}`)!), parameter).toBeLessThan(TOLERANCE)
    }
  })

  it.each(['importance_sampling', 'ppo', 'cispo'] as const)('%s: loss and gradients', async (loss) => {
    const data = fixtureData(fixture, 'ones')
    const result = await runPasses(core, freshWeights(), data, { name: loss }, OPTIONS)
    expect(result.loss).toBeCloseTo(fixture.numbers[`${loss}_loss_sum`] as number, 3)
    const norm = await core.math.norm(result.gradients!)
    expect(norm / (fixture.numbers[`${loss}_grad_norm`] as number)).toBeCloseTo(1, 4)
    const one = 'model.layers.1.mlp.down_proj.weight'
    expect(error(result.gradients!.get(one)!.data!, fixture.golden.get(`grad_${loss}/${one}`)!)).toBeLessThan(TOLERANCE)
  })

  it.each<GraphLoss>([
    { name: 'gspo', clip: 0.05, normalise: 'sequenceMean' },
    { name: 'dro', beta: 0.3, normalise: { fixed: 5 } },
    { name: 'ppo', low: 0.9, high: 1.05, normalise: 'tokenMean' },
  ])('$name with options: the gradient is the slope of its formula along it', async (loss) => {
    const data = fixtureData(fixture, 'ones')
    const { gradients, loss: value, logprobs } = await runPasses(core, freshWeights(), data, loss, OPTIONS)
    expect(value).toBeCloseTo(referenceLoss(loss, data, logprobs).loss, 4)
    const norm = await core.math.norm(gradients!)
    const h = 1e-3 / norm
    const at = async (step: number) => {
      for (const { name: parameter, weight } of parameters) {
        const from = fixture.weights.get(parameter)!
        const slope = gradients!.get(parameter)!.data!
        await weight.write(from.map((x, i) => x + step * slope[i]!))
      }
      const { logprobs: moved } = await runPasses(core, parameters, data, loss, { ...OPTIONS, gradients: false })
      return referenceLoss(loss, data, moved).loss
    }
    const slope = ((await at(h)) - (await at(-h))) / (2 * h)
    expect(Math.abs(slope / norm ** 2 - 1)).toBeLessThan(2e-2)
  })

  it('AdamW: parameters after four steps', async () => {
    const data = fixtureData(fixture, 'target_weights')
    freshWeights()
    const adamw = fixture.numbers['adamw'] as Record<
      'lr' | 'beta1' | 'beta2' | 'eps' | 'weight_decay' | 'max_grad_norm',
      number
    >
    const [m, v] = [companions(runtime, parameters), companions(runtime, parameters)]
    const norms = fixture.numbers['adamw_grad_norms'] as number[]
    for (const [step, norm] of norms.entries()) {
      const { gradients } = await runPasses(core, parameters, data, { name: 'cross_entropy' }, OPTIONS)
      const got = await core.math.step(parameters, { gradients: gradients!, m, v }, step + 1, {
        learningRate: adamw.lr,
        beta1: adamw.beta1,
        beta2: adamw.beta2,
        epsilon: adamw.eps,
        weightDecay: adamw.weight_decay,
        maxGradNorm: adamw.max_grad_norm,
      })
      expect(Math.abs(got / norm - 1)).toBeLessThan(TOLERANCE)
      core.giveGradients(gradients!)
    }
    for (const { name: parameter, weight } of parameters) {
      // Adam divides by the gradient's size, so where a gradient is all rounding (attention hardly depends on the key bias) the
      // golden float32 numbers are themselves 2.1e-4 away from the same steps in float64.
      const tolerance = parameter.endsWith('k_proj.bias') ? 5e-4 : TOLERANCE
      expect(error(weight.data!, fixture.golden.get(`after_adamw/${parameter}`)!), parameter).toBeLessThan(tolerance)
    }
    for (const moments of [m, v]) disposeAll(moments.values())
  })

  it('LoRA: log-probs and gradients of the adapter on the mapped, frozen base', async () => {
    const { folder, config, path, golden, numbers } = fixture
    const adapter = await openAdapterFolder(`${path}/lora`)
    const training = checkLora({ rank: adapter.rank, alpha: adapter.alpha })
    const adapted = await ModelCore.create({ runtime, folder, config, training, contextLength: 64 })
    adapted.retain()
    const matrices: Parameter[] = []
    for (const { name: matrix, shape } of loraWeights(config, training)) {
      const values = await adapter.read(`base_model.model.${matrix}`)
      matrices.push({ name: matrix, shape, weight: runtime.tensor('float32', values, shape) })
    }
    const data = fixtureData(fixture, 'target_weights')
    const result = await runPasses(adapted, matrices, data, { name: 'cross_entropy' }, OPTIONS)
    expect(Math.abs(result.loss / (numbers['lora_ce_loss_sum'] as number) - 1)).toBeLessThan(TOLERANCE)
    checkLoraGradients(result.gradients!, golden)
    await adapted.release()
  })
})

function checkLoraGradients(gradients: Companions, golden: ReadonlyMap<string, Float32Array>): void {
  const wanted = [...golden.keys()].filter((key) => key.startsWith('lora_grad_ce/'))
  expect(wanted.length).toBe(gradients.size)
  for (const [matrix, gradient] of gradients) {
    const key = `lora_grad_ce/base_model.model.${matrix.replace(/\.weight$/, '.default.weight')}`
    expect(error(gradient.data!, golden.get(key)!), matrix).toBeLessThan(TOLERANCE)
  }
}
