import { InvalidInputError, NonFiniteError } from '@selfplay/engine'
import type { SampledSequence, SampleRequest } from '@selfplay/engine'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openSafetensors, readTensor } from '../checkpoint/index.js'
import { FIXTURES, loadFixture } from '../models/testing/fixtures.js'
import type { Fixture } from '../models/testing/fixtures.js'
import { LINEAR_NAMES } from '../models/weights.js'
import { createRuntime } from '../runtime/index.js'
import type { Runtime, Tensor } from '../runtime/index.js'
import { createEngine } from './create.js'
import type { CreateEngineOptions } from './create.js'

let runtime: Runtime
const fixtures = new Map<string, Fixture>()
beforeAll(async () => {
  runtime = await createRuntime({ threads: 2 })
  for (const name of FIXTURES) fixtures.set(name, await loadFixture(name))
})
afterAll(() => runtime.dispose())

const tensorsOf = (fixture: Fixture) =>
  new Map(
    [...fixture.weights].map(([name, data]) => [
      name,
      runtime.tensor('float32', data.slice(), fixture.folder.tensors.get(name)!.shape),
    ]),
  )

function setUp(name: string, options: Partial<CreateEngineOptions> = {}) {
  const fixture = fixtures.get(name)!
  const weights = tensorsOf(fixture)
  return { fixture, weights, engine: createEngine({ runtime, config: fixture.config, weights, slots: 3, ...options }) }
}
const ids = (list: readonly number[]) => Int32Array.from(list)
const worst = (a: ArrayLike<number>, b: ArrayLike<number>) =>
  Math.max(...Array.from(a, (value, i) => Math.abs(value - b[i]!)))

describe.each(FIXTURES)('%s', (name) => {
  it.each(['none', 'packed'] as const)('continues greedily as expected, weights %s', async (packing) => {
    const { fixture, engine } = setUp(name, { packing })
    const { greedy_prompt, greedy_tokens, greedy_logprobs } = fixture.numbers
    const [sequence] = await engine.sample({ prompt: ids(greedy_prompt), maxTokens: 20, temperature: 0 })
    expect([...sequence!.tokens]).toEqual(greedy_tokens)
    expect(worst(sequence!.logprobs, greedy_logprobs)).toBeLessThan(1e-4)
    expect([...new Set(sequence!.keptMass)]).toEqual([1])
    await engine.dispose()
  })

  it('has the golden log-probs, through logprobs and through sampling', async () => {
    const { fixture, engine } = setUp(name)
    const { ids: all, seq, numbers } = fixture
    const golden = fixture.golden.get('target_logprobs')!
    for (const [row, length] of numbers.lens.entries()) {
      const tokens = all.slice(row * seq, row * seq + length)
      const want = golden.slice(row * (seq - 1), row * (seq - 1) + length - 1)
      expect(worst(await engine.logprobs(tokens), want)).toBeLessThan(1e-4)
    }
    for (const temperature of [1, 0.7]) {
      const prompt = ids(numbers.greedy_prompt)
      const sequences = await engine.sample({ prompt, numSamples: 4, maxTokens: 30, temperature, seed: 3 })
      for (const { tokens, logprobs } of sequences) {
        const scored = await engine.logprobs(ids([...prompt, ...tokens]), { temperature })
        expect(worst(scored.slice(prompt.length - 1), logprobs)).toBeLessThan(1e-4)
      }
    }
    await engine.dispose()
  })

  it('sees the tensors of an adapter', async () => {
    const fixture = fixtures.get(name)!
    const file = await openSafetensors(`${fixture.path}/lora/adapter_model.safetensors`)
    const tensors = new Map<string, Tensor<'float32'>>()
    for (const [key, entry] of file.tensors) {
      tensors.set(key.replace('base_model.model.', ''), runtime.tensor('float32', await readTensor(entry), entry.shape))
    }
    const adapter = { options: { rank: 4, alpha: 8, targets: LINEAR_NAMES }, tensors }
    const { engine } = setUp(name, { adapter })
    const length = fixture.numbers.lens[0]!
    const tokens = fixture.ids.slice(0, length)
    const want = fixture.golden.get('lora_target_logprobs')!.slice(0, length - 1)
    expect(worst(await engine.logprobs(tokens), want)).toBeLessThan(1e-4)
    const [sequence] = await engine.sample({ prompt: tokens, maxTokens: 10, seed: 1 })
    const scored = await engine.logprobs(ids([...tokens, ...sequence!.tokens]))
    expect(worst(scored.slice(length - 1), sequence!.logprobs)).toBeLessThan(1e-4)
    const before = await engine.logprobs(tokens)
    for (const [key, tensor] of tensors) if (key.includes('lora_B')) tensor.data!.fill(0)
    const plain = fixture.golden.get('target_logprobs')!.slice(0, length - 1)
    expect(worst(await engine.logprobs(tokens), plain)).toBeLessThan(1e-4)
    expect(worst(before, plain)).toBeGreaterThan(1e-4)
    await engine.dispose()
  })
})

/** Ten requests of every kind: shared prompts, own prompts, filters, greedy, temperatures, stops. */
function requests(vocabSize: number): SampleRequest[] {
  return Array.from({ length: 10 }, (_, n) => ({
    prompt: ids(
      Array.from({ length: 1 + ((3 * n) % 7) }, (_, t) => (n === 7 ? 5 : 3 + ((11 * n + 5 * t) % (vocabSize - 3)))),
    ),
    numSamples: 1 + (n % 4),
    maxTokens: 5 + ((7 * n) % 90),
    seed: 100 + n,
    stop: [1, 2],
    ...(n % 5 === 1 && { temperature: 0 }),
    ...(n % 5 === 2 && { topP: 0.8, temperature: 1.3 }),
    ...(n % 5 === 3 && { topK: 7, topP: 0.9 }),
    ...(n % 5 === 4 && { temperature: 0.6 }),
  }))
}

describe('the same seed', () => {
  it.each([
    ['none', 3],
    ['packed', 3],
    ['none', 17],
  ] as const)(
    'gives the same bits for any number and order of requests, weights %s, %d rows',
    async (packing, slots) => {
      const { fixture, engine } = setUp('qwen2', { packing, slots })
      const all = requests(fixture.config.vocabSize)
      const alone: SampledSequence[][] = []
      for (const request of all) alone.push(await setUp('qwen2', { packing, slots }).engine.sample(request))
      for (const stride of [1, 3, 7]) {
        const order = all.map((_, n) => (n * stride + 4) % 10)
        const together = await Promise.all(order.map((n) => engine.sample(all[n]!)))
        order.forEach((n, at) => expect(together[at]).toEqual(alone[n]))
      }
      for (const [n, request] of all.entries()) expect(await engine.sample(request)).toEqual(alone[n])
      await engine.dispose()
    },
  )

  it.each([
    [5, 1],
    [17, 2],
  ])('gives the same bits in each of %d rows, on %d threads', async (slots, threads) => {
    for (const filter of [{}, { topK: 20, topP: 0.9 }, { temperature: 0 }]) {
      const { engine } = setUp('qwen3', { slots, threads })
      const request = { prompt: ids([5, 6, 7]), maxTokens: 60, seed: 2, stop: [], ...filter }
      const all = await Promise.all(Array.from({ length: slots }, () => engine.sample(request)))
      for (const sequences of all) expect(sequences).toEqual(all[0])
      await engine.dispose()
    }
  })

  it('does not depend on the room of the cache or on how long rows beside it are', async () => {
    const request = { prompt: ids([3, 4, 5]), maxTokens: 40, seed: 6 }
    const fresh = await setUp('llama3').engine.sample(request)
    const { engine } = setUp('llama3')
    const [, beside] = await Promise.all([
      engine.sample({ prompt: ids([9]), maxTokens: 300, seed: 1, stop: [] }),
      engine.sample(request),
    ])
    expect(beside).toEqual(fresh)
    expect(await engine.sample(request)).toEqual(fresh)
  })
})

describe('filters', () => {
  it('draw from what they keep, with the mass that they keep', async () => {
    const { engine, fixture } = setUp('qwen3', { slots: 8 })
    const prompt = ids([5, 6, 7])
    // The first token's exact distribution, from log-probs of each continuation.
    const { vocabSize } = fixture.config
    const exact = await Promise.all(
      Array.from({ length: vocabSize }, async (_, id) => Math.exp((await engine.logprobs(ids([...prompt, id])))[2]!)),
    )
    const order = [...exact.keys()].toSorted((a, b) => exact[b]! - exact[a]!)
    const sequences = await engine.sample({ prompt, numSamples: 200, maxTokens: 1, topK: 6, seed: 2 })
    const kept = order.slice(0, 6)
    const mass = kept.reduce((sum, id) => sum + exact[id]!, 0)
    for (const { tokens, keptMass, logprobs } of sequences) {
      expect(kept).toContain(tokens[0])
      expect(Math.abs(keptMass[0]! - mass)).toBeLessThan(1e-5)
      expect(Math.abs(logprobs[0]! - Math.log(exact[tokens[0]!]!))).toBeLessThan(1e-4)
    }
    // A nucleus larger than the first level of candidates.
    const wide = await engine.sample({ prompt, numSamples: 8, maxTokens: 3, topP: 0.999, temperature: 4, seed: 2 })
    for (const { keptMass } of wide) for (const got of keptMass) expect(got).toBeGreaterThanOrEqual(0.999 - 1e-5)
  })
})

describe('weights that change', () => {
  it.each(['none', 'packed', 'auto'] as const)('count from the next version on, packing %s', async (packing) => {
    let version = 0
    const { fixture, weights, engine } = setUp('qwen2', { packing, trained: true, version: () => version })
    const request = { prompt: ids([3, 4, 5, 6]), maxTokens: 12, seed: 1 }
    const tokens = ids([3, 4, 5, 6, 7])
    const before = [await engine.sample(request), await engine.logprobs(tokens)]
    for (const tensor of weights.values()) tensor.data!.forEach((value, i, data) => (data[i] = value * 1.05))
    version = 1
    const after = [await engine.sampler().sample(request), await engine.sampler().logprobs(tokens)]
    const fresh = createEngine({ runtime, config: fixture.config, weights, slots: 3, packing, version: () => 1 })
    expect(after).toEqual([await fresh.sample(request), await fresh.logprobs(tokens)])
    expect(after[1]).not.toEqual(before[1])
    await engine.dispose()
    await fresh.dispose()
  })
})

describe('weights that are not numbers', () => {
  it('are named, and the engine works once they are mended', async () => {
    const { weights, engine } = setUp('qwen2', { packing: 'none' })
    const data = weights.get('model.norm.weight')!.data!
    const before = data.slice()
    data.fill(NaN)
    for (const filter of [{}, { topK: 5 }, { temperature: 0 }]) {
      await expect(engine.sample({ prompt: ids([3]), maxTokens: 3, ...filter })).rejects.toThrow(NonFiniteError)
    }
    data.set(before)
    const [sequence] = await engine.sample({ prompt: ids([3]), maxTokens: 3, stop: [] })
    expect(sequence!.tokens.length).toBe(3)
    await engine.dispose()
  })
})

describe('the event loop', () => {
  it('gets its turns, and an abort ends a long request soon', async () => {
    const { engine } = setUp('qwen2', { slots: 16 })
    await engine.sample({ prompt: ids([3]), maxTokens: 20, stop: [] })
    const abort = new AbortController()
    let ticks = 0
    const timer = setInterval(() => ++ticks === 5 && abort.abort(new Error('enough')), 5)
    const request = { prompt: ids([3]), numSamples: 4000, maxTokens: 200, stop: [] }
    await expect(engine.sample(request, { signal: abort.signal })).rejects.toThrow('enough')
    clearInterval(timer)
    const { steps } = engine.counts
    await engine.release()
    expect(engine.counts.steps - steps).toBeLessThanOrEqual(1)
  })
})

describe('memory', () => {
  it('does not grow with steps, requests or releases', async () => {
    const { engine } = setUp('mistral')
    const work = async (rounds: number) => {
      for (let n = 0; n < rounds; n++) {
        await engine.sample({ prompt: ids([3 + (n % 90), 4, 5]), numSamples: 3, maxTokens: 40, seed: n, stop: [] })
        if (n % 50 === 49) await engine.release()
      }
    }
    const resident = () => (globalThis.gc?.(), process.memoryUsage().rss)
    await work(100)
    // What leaks grows in every round; what the garbage collector has not come to yet does not.
    const growth: number[] = []
    for (let round = 0; round < 3; round++) {
      const before = resident()
      await work(100)
      growth.push(resident() - before)
    }
    expect(Math.min(...growth) / 2 ** 20).toBeLessThan(8)
    expect(engine.counts).toEqual({ steps: 400 * 40, tokens: 400 * 120, prefills: 400 })
  })

  it('serves requests across a release', async () => {
    const { engine } = setUp('qwen2')
    const request = { prompt: ids([3, 4, 5]), maxTokens: 8, seed: 1, topK: 5 }
    const first = await engine.sample(request)
    await engine.release()
    expect(await engine.sample(request)).toEqual(first)
    await engine.dispose()
  })
})

describe('createEngine', () => {
  it.each([
    [{ slots: 0 }, /slots/],
    [{ slots: 1.5 }, /slots/],
    [{ maxLength: 1e9 }, /maxLength/],
    [{ threads: 0 }, /threads/],
    [{ packing: 'yes' as 'auto' }, /packing/],
    [{ weights: new Map() }, /model.embed_tokens.weight.*got nothing/],
    [{ slot: 3 } as object, /did you mean "slots"/],
    [{ adapter: { options: { rank: 4, alpha: 8, targets: LINEAR_NAMES }, tensors: new Map() } }, /lora_A/],
  ])('refuses %o', (options, message) => {
    expect(() => setUp('qwen2', options)).toThrow(InvalidInputError)
    expect(() => setUp('qwen2', options)).toThrow(message)
  })

  it('refuses a shared container for weights that change', () => {
    expect(() => setUp('qwen2', { trained: true, packing: runtime.packedWeights() })).toThrow(/container/)
  })
})
