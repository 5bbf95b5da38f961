import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { InvalidInputError, NonFiniteError, StaleSamplerError } from '../errors.js'
import type { Datum } from '../datum.js'
import type { Loss } from '../loss.js'
import type { OptimStepOptions, TrainingClient } from '../training.js'
import { referenceLoss } from './reference-losses.js'

export interface ConformanceOptions {
  /** A new client; every call gives byte-identical weights. */
  readonly makeClient: () => Promise<TrainingClient>
  /** Largest |sampler log-prob - trainer log-prob|. Default 1e-4. */
  readonly tolerance?: number
}

const LOSSES: Exclude<Loss, { name: 'custom' }>[] = [
  { name: 'cross_entropy' },
  { name: 'importance_sampling' },
  { name: 'ppo' },
  { name: 'cispo' },
  { name: 'dro' },
  { name: 'gspo' },
]

/** The vitest suite that every training core passes: the promises of `TrainingClient` and `SamplingClient`, one test each. */
export function describeTrainingCore(name: string, { makeClient, tolerance = 1e-4 }: ConformanceOptions): void {
  const open: TrainingClient[] = []
  const client = async () => {
    const made = await makeClient()
    open.push(made)
    return made
  }
  afterEach(async () => {
    await Promise.all(open.splice(0).map((made) => made.dispose()))
  })

  describe(`${name} keeps the contract of a training core`, () => {
    losses(client)
    gradients(client)
    samplers(client, tolerance)
    states(client)
    refusals(client)
  })
}

type Make = () => Promise<TrainingClient>

/** Two sequences whose first position is not trained. */
function exampleData(vocabSize: number): Datum[] {
  return [7, 5].map((T, d) => {
    const id = (t: number) => (3 + 5 * d + 7 * t + t * t) % vocabSize
    return {
      tokens: Int32Array.from({ length: T }, (_, t) => id(t)),
      targets: Int32Array.from({ length: T }, (_, t) => id(t + 1)),
      weights: Float32Array.from({ length: T }, (_, t) => (t === 0 ? 0 : 1)),
      advantages: Float32Array.from({ length: T }, (_, t) => (d === 0 ? 1 : -0.5) + 0.1 * t),
      samplerLogprobs: Float32Array.from({ length: T }, (_, t) => -Math.log(vocabSize) + 0.3 * Math.sin(3 * t + d)),
    }
  })
}

const policyOf = async (client: TrainingClient) =>
  (await client.forward(exampleData(client.info.vocabSize), { name: 'cross_entropy' })).logprobs

const STEP = { learningRate: 1e-2, maxGradNorm: null } as const

function losses(make: Make) {
  it.each(LOSSES)('$name equals its formula', async (loss) => {
    const client = await make()
    const data = exampleData(client.info.vocabSize)
    for (const normalise of ['sum', 'tokenMean', 'sequenceMean', { fixed: 10 }] as const) {
      const got = await client.forward(data, { ...loss, normalise })
      const want = referenceLoss({ ...loss, normalise }, data, got.logprobs)
      expect(got.loss).toBeCloseTo(want.loss, 3)
    }
  })

  it.each(LOSSES)('$name has the gradient of its formula', async (loss) => {
    const [builtIn, custom] = await Promise.all([make(), make()])
    const data = exampleData(builtIn.info.vocabSize)
    await builtIn.forwardBackward(data, loss)
    await custom.forwardBackward(data, {
      name: 'custom',
      compute: (logprobs) => {
        const { loss: value, gradient } = referenceLoss(loss, data, logprobs)
        return { loss: value, gradient: gradient.map((row) => Float32Array.from(row)) }
      },
    })
    const [a, b] = [await builtIn.optimStep(STEP), await custom.optimStep(STEP)]
    expect(a.gradNorm).toBeGreaterThan(0)
    expect(Math.abs(a.gradNorm - b.gradNorm) / a.gradNorm).toBeLessThan(1e-4)
  })
}

function gradients(make: Make) {
  it('accumulates gradients over calls', async () => {
    const [twice, once] = await Promise.all([make(), make()])
    const data = exampleData(twice.info.vocabSize)
    for (const datum of data) await twice.forwardBackward([datum], { name: 'cross_entropy' })
    await once.forwardBackward(data, { name: 'cross_entropy' })
    const [a, b] = [await twice.optimStep(STEP), await once.optimStep(STEP)]
    expect(Math.abs(a.gradNorm - b.gradNorm) / b.gradNorm).toBeLessThan(1e-4)
  })

  it('zeroes them in optimStep, and a step without gradients is skipped', async () => {
    const client = await make()
    await client.forwardBackward(exampleData(client.info.vocabSize), { name: 'cross_entropy' })
    expect((await client.optimStep(STEP)).skipped).toBe(false)
    const before = await policyOf(client)
    expect((await client.optimStep(STEP)).skipped).toBe(true)
    expect(await policyOf(client)).toEqual(before)
    expect(client.step).toBe(1)
  })

  it('takes an option of a step that is undefined like one that is left out', async () => {
    const [given, plain] = await Promise.all([make(), make()])
    const data = exampleData(plain.info.vocabSize)
    const all = { beta1: undefined, beta2: undefined, epsilon: undefined, weightDecay: undefined }
    const options = { learningRate: 1e-2, ...all, maxGradNorm: undefined } as unknown as OptimStepOptions
    // The second step shows whether the first one's gradient was clipped.
    for (let step = 0; step < 2; step++) {
      for (const client of [given, plain]) await client.forwardBackward(data, { name: 'cross_entropy' })
      expect(await given.optimStep(options)).toEqual(await plain.optimStep({ learningRate: 1e-2 }))
    }
    expect(await policyOf(given)).toEqual(await policyOf(plain))
  })

  it('leaves them as they were when a call is aborted', async () => {
    const [aborted, plain] = await Promise.all([make(), make()])
    const data = exampleData(plain.info.vocabSize)
    for (const client of [aborted, plain]) await client.forwardBackward(data, { name: 'cross_entropy' })
    const reason = new Error('enough')
    await expect(
      aborted.forwardBackward(data, { name: 'cross_entropy' }, { signal: AbortSignal.abort(reason) }),
    ).rejects.toBe(reason)
    expect(await aborted.optimStep(STEP)).toEqual(await plain.optimStep(STEP))
  })

  it('lowers the loss by following them', async () => {
    const client = await make()
    const data = exampleData(client.info.vocabSize)
    const first = await client.forwardBackward(data, { name: 'cross_entropy', normalise: 'tokenMean' })
    await client.optimStep({ learningRate: 1e-3 })
    const second = await client.forward(data, { name: 'cross_entropy', normalise: 'tokenMean' })
    expect(second.loss).toBeLessThan(first.loss)
  })
}

function samplers(make: Make, tolerance: number) {
  it.each([1, 0.7])(
    'check 12: samples with the log-probs that it trains with, at temperature %d',
    async (temperature) => {
      const client = await make()
      const sampler = await client.sampler()
      const prompt = Int32Array.from([1, 2, 3])
      const sequences = await sampler.sample({ prompt, numSamples: 4, maxTokens: 6, temperature, seed: 5, stop: [] })
      for (const { tokens, logprobs } of sequences) {
        const whole = Int32Array.from([...prompt, ...tokens])
        const weights = Float32Array.from({ length: whole.length - 1 }, (_, t) => (t >= prompt.length - 1 ? 1 : 0))
        const datum = { tokens: whole.slice(0, -1), targets: whole.slice(1), weights, temperature }
        const trained = (await client.forward([datum], { name: 'cross_entropy' })).logprobs[0]!
        const asked = await sampler.logprobs(whole, { temperature })
        logprobs.forEach((logprob, n) => {
          expect(Math.abs(trained[prompt.length - 1 + n]! - logprob)).toBeLessThan(tolerance)
          expect(Math.abs(asked[prompt.length - 1 + n]! - logprob)).toBeLessThan(tolerance)
        })
      }
    },
  )

  it('draws the same tokens from the same seed, and others from another', async () => {
    const sampler = await (await make()).sampler()
    const draw = async (seed: number) =>
      (await sampler.sample({ prompt: Int32Array.of(1), numSamples: 3, maxTokens: 12, seed, stop: [] })).map(
        ({ tokens }) => [...tokens],
      )
    const first = await draw(7)
    expect(await draw(7)).toEqual(first)
    expect(await draw(8)).not.toEqual(first)
  })

  it('rejects calls on a live sampler after a step', async () => {
    const client = await make()
    const sampler = await client.sampler()
    await client.forwardBackward(exampleData(client.info.vocabSize), { name: 'cross_entropy' })
    await client.optimStep(STEP)
    await expect(sampler.sample({ prompt: Int32Array.of(1), maxTokens: 2 })).rejects.toThrow(StaleSamplerError)
    const fresh = await client.sampler()
    const [sequence] = await fresh.sample({ prompt: Int32Array.of(1), maxTokens: 2 })
    expect(sequence!.policyVersion).toBe(1)
  })

  it('gives no sampler to an aborted call', async () => {
    const client = await make()
    const reason = new Error('enough')
    await expect(client.sampler({ signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
    await expect(client.sampler()).resolves.toHaveProperty('policyVersion', 0)
  })

  it('freezes snapshots', async () => {
    const client = await make()
    const snapshot = await client.snapshot()
    const tokens = Int32Array.of(1, 2, 3, 4)
    const before = await snapshot.logprobs(tokens)
    await client.forwardBackward(exampleData(client.info.vocabSize), { name: 'cross_entropy' })
    await client.optimStep(STEP)
    expect(await snapshot.logprobs(tokens)).toEqual(before)
    expect(await (await client.sampler()).logprobs(tokens)).not.toEqual(before)
    await snapshot.dispose()
  })
}

function states(make: Make) {
  it('continues bit for bit from a saved state', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'selfplay-conformance-'))
    try {
      const [original, restored] = await Promise.all([make(), make()])
      const train = async (client: TrainingClient) => {
        await client.forwardBackward(exampleData(client.info.vocabSize), { name: 'cross_entropy' })
        return client.optimStep(STEP)
      }
      await train(original)
      await original.saveState(join(directory, 'state'))
      await restored.loadState(join(directory, 'state'))
      expect(restored.step).toBe(1)
      expect(await train(restored)).toEqual(await train(original))
      expect(await policyOf(restored)).toEqual(await policyOf(original))
    } finally {
      await rm(directory, { recursive: true, force: true })
    }
  })
}

function refusals(make: Make) {
  it('refuses data that it cannot train on', async () => {
    const client = await make()
    const { vocabSize } = client.info
    const tokens = Int32Array.of(1, 2)
    const bad: Datum[][] = [
      [],
      [{ tokens, targets: Int32Array.of(1) }],
      [{ tokens, targets: Int32Array.of(1, vocabSize) }],
      [{ tokens: new Int32Array(0), targets: new Int32Array(0) }],
      [{ tokens, targets: tokens, temperature: 0 }],
      [{ tokens }, { tokens: [1, 2], targets: [1, 2] }] as unknown as Datum[],
      [{ tokens, targets: tokens, weights: Float64Array.of(1, 1) }] as unknown as Datum[],
      [{ tokens, targets: tokens, weight: Float32Array.of(1, 1) }] as unknown as Datum[],
      { tokens, targets: tokens } as unknown as Datum[],
    ]
    for (const data of bad) {
      await expect(client.forwardBackward(data, { name: 'cross_entropy' })).rejects.toThrow(InvalidInputError)
    }
    await expect(client.forwardBackward([{ tokens, targets: tokens }], { name: 'ppo' })).rejects.toThrow(
      InvalidInputError,
    )
  })

  it('refuses losses that there are not, and options that they do not have', async () => {
    const client = await make()
    const data = exampleData(client.info.vocabSize)
    const bad: unknown[] = [
      undefined,
      { name: 'pppo' },
      { name: 'ppo', hi: 3 },
      { name: 'ppo', low: Number.NaN },
      { name: 'ppo', low: 2 },
      { name: 'dro', beta: -1 },
      { name: 'cross_entropy', normalise: 'mean' },
      { name: 'cross_entropy', normalise: { fixed: 0 } },
      { name: 'custom' },
      { name: 'custom', compute: () => undefined },
      { name: 'custom', compute: async () => ({ loss: 0, gradient: [] }) },
    ]
    for (const loss of bad) {
      await expect(client.forwardBackward(data, loss as Loss)).rejects.toThrow(InvalidInputError)
      await expect(client.forward(data, loss as Loss)).rejects.toThrow(InvalidInputError)
    }
    expect((await client.optimStep(STEP)).skipped).toBe(true)
  })

  it.each([{ dtype: 'bfloat16' }, { dtyp: 'float16' }, { format: 'merge' }])(
    'refuses the export %j',
    async (options) => {
      const directory = join(tmpdir(), 'selfplay-conformance-none')
      await expect((await make()).exportModel(directory, options as object)).rejects.toThrow(InvalidInputError)
    },
  )

  it('check 18: names the datum whose loss is not finite and keeps the gradients', async () => {
    const [hit, plain] = await Promise.all([make(), make()])
    const data = exampleData(plain.info.vocabSize)
    for (const client of [hit, plain]) await client.forwardBackward(data, { name: 'cross_entropy' })
    const exploding = data.map((datum, d) => ({
      ...datum,
      samplerLogprobs: datum.samplerLogprobs!.map((x) => (d === 1 ? -1e30 : x)),
    }))
    const failure = await hit
      .forwardBackward(exploding, { name: 'importance_sampling' })
      .catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(NonFiniteError)
    expect((failure as NonFiniteError).details).toMatchObject({ datum: 1 })
    expect(await hit.optimStep(STEP)).toEqual(await plain.optimStep(STEP))
  })

  it.each([0, -1, 1.5, Number.NaN])('refuses maxTokens %d and an empty prompt', async (maxTokens) => {
    const sampler = await (await make()).sampler()
    await expect(sampler.sample({ prompt: Int32Array.of(1), maxTokens })).rejects.toThrow(InvalidInputError)
    await expect(sampler.sample({ prompt: new Int32Array(0), maxTokens: 1 })).rejects.toThrow(InvalidInputError)
  })
}
