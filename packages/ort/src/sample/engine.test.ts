import {
  ContextOverflowError,
  DisposedError,
  InvalidInputError,
  NonFiniteError,
  StaleSamplerError,
} from '@selfplay/engine'
import type { SampleRequest } from '@selfplay/engine'
import { describe, expect, it } from 'vitest'
import { GenerationEngine, SamplingError } from './engine.js'
import type { EngineOptions } from './engine.js'
import { HashModel, STRIDE, VOCAB } from './testing/hash-model.js'

const setUp = (slots = 3, options: EngineOptions = {}) => {
  const model = new HashModel(slots)
  return { model, engine: new GenerationEngine(model, options) }
}
const ids = (...list: number[]) => Int32Array.from(list)
const request = (over: Partial<SampleRequest> = {}): SampleRequest => ({
  prompt: ids(1, 2, 3),
  maxTokens: 6,
  seed: 1,
  ...over,
})
const tokensOf = (sequences: { tokens: Int32Array }[]) => sequences.map(({ tokens }) => [...tokens])

const TEN: SampleRequest[] = Array.from({ length: 10 }, (_, n) => ({
  prompt: ids(...Array.from({ length: 1 + (n % 4) }, (_, t) => (7 * n + t) % VOCAB)),
  numSamples: 1 + (n % 3),
  maxTokens: 3 + ((5 * n) % 11),
  seed: n,
  stop: [n],
  ...(n % 4 === 1 ? { temperature: 0 } : {}),
  ...(n % 4 === 2 ? { topP: 0.5 } : {}),
}))

describe('order and company', () => {
  it('gives each request the same tokens whatever else runs, in any order', async () => {
    const alone: number[][][] = []
    for (const each of TEN) alone.push(tokensOf(await setUp(3).engine.sample(each)))
    for (const stride of [1, 3, 7, 9]) {
      const { engine } = setUp(3)
      const order = TEN.map((_, n) => (n * stride + 2) % 10)
      const results = await Promise.all(order.map((n) => engine.sample(TEN[n]!)))
      order.forEach((n, at) => expect(tokensOf(results[at]!)).toEqual(alone[n]))
    }
    const { engine } = setUp(3)
    for (const [n, each] of TEN.entries()) expect(tokensOf(await engine.sample(each))).toEqual(alone[n])
  })

  it('draws the same in strides of several steps, up to the end of the context', async () => {
    const requests = [
      ...TEN,
      request({ numSamples: 2, maxTokens: 37, seed: 8 }),
      request({ prompt: Int32Array.from({ length: 33 }, (_, t) => t), maxTokens: 7, seed: 9 }),
    ]
    for (const each of requests) {
      const single = tokensOf(await setUp(3).engine.sample(each))
      const { model, engine } = setUp(3)
      model.stride = STRIDE
      expect(tokensOf(await engine.sample(each))).toEqual(single)
      expect(engine.counts.steps).toBe(model.strides.reduce((sum, steps) => sum + steps, 0))
    }
    const { model, engine } = setUp(3)
    model.stride = STRIDE
    await engine.sample(request({ numSamples: 5, maxTokens: 6 }))
    // One at a time where no row has use for four.
    expect(model.strides).toEqual([4, 1, 1, 4, 1, 1])
    expect(model.rested).toBe(1)
  })

  it('moves rows that are left together, so that steps get shorter, and draws the same', async () => {
    const long = request({ numSamples: 2, maxTokens: 20, seed: 5 })
    const short = request({ numSamples: 6, maxTokens: 4, seed: 6, prompt: ids(4, 5) })
    const alone = tokensOf(await setUp(8).engine.sample(long))
    const { model, engine } = setUp(8)
    const [, kept] = await Promise.all([engine.sample(short), engine.sample(long)])
    expect(tokensOf(kept)).toEqual(alone)
    expect(model.moves).toBe(2)
    expect(model.spans).toEqual([...Array<number>(4).fill(8), ...Array<number>(16).fill(4)])
  })

  it('draws seeds from its own where a request has none', async () => {
    const draw = async (seed: number) => {
      const { engine } = setUp(2, { seed })
      const { seed: _, ...unseeded } = request({ maxTokens: 12 })
      return [tokensOf(await engine.sample(unseeded)), tokensOf(await engine.sample(unseeded))]
    }
    const [first, second] = await draw(1)
    expect(first).not.toEqual(second)
    expect(await draw(1)).toEqual([first, second])
    expect(await draw(2)).not.toEqual([first, second])
  })
})

describe('rows', () => {
  it('refills a row as soon as it is free, and runs equal prompts once', async () => {
    const { engine, model } = setUp(2)
    const lengths = [5, 1, 1, 3]
    await Promise.all(lengths.map((maxTokens) => engine.sample(request({ maxTokens }))))
    // Row 0: 5 steps. Row 1: 1 + 1 + 3 steps.
    expect(engine.counts).toEqual({ steps: 5, tokens: 10, prefills: 1 })
    expect(model.live).toBe(0)
    await engine.sample(request({ numSamples: 7, maxTokens: 4 }))
    expect(engine.counts).toEqual({ steps: 5 + 16, tokens: 10 + 28, prefills: 2 })
  })

  it('does not mix filtered and plain rows', async () => {
    const { engine } = setUp(4)
    const [plain, filtered, after] = await Promise.all([
      engine.sample(request({ maxTokens: 3 })),
      engine.sample(request({ maxTokens: 3, topP: 0.25 })),
      engine.sample(request({ maxTokens: 3 })),
    ])
    expect(engine.counts.steps).toBe(9)
    expect([...plain[0]!.keptMass, ...after[0]!.keptMass]).toEqual([1, 1, 1, 1, 1, 1])
    expect([...filtered[0]!.keptMass]).toEqual([0.25, 0.25, 0.25])
  })

  it('frees the rows of an aborted request at the next step; the others go on', async () => {
    const { engine, model } = setUp(3)
    const abort = new AbortController()
    const reason = new Error('enough')
    model.beforeStep = (step) => {
      if (step === 2) abort.abort(reason)
    }
    const want = tokensOf(await setUp(3).engine.sample(request({ maxTokens: 20, seed: 4 })))
    const [aborted, other, waiting] = await Promise.allSettled([
      engine.sample(request({ numSamples: 2, maxTokens: 30 }), { signal: abort.signal }),
      engine.sample(request({ maxTokens: 20, seed: 4 })),
      engine.sample(request({ maxTokens: 10, numSamples: 2 })),
    ])
    expect(aborted).toEqual({ status: 'rejected', reason })
    expect(other.status === 'fulfilled' && tokensOf(other.value)).toEqual(want)
    expect(waiting.status).toBe('fulfilled')
    expect(engine.counts.steps).toBe(20)
    expect(model.live).toBe(0)
  })

  it('rejects at once what is aborted before it starts', async () => {
    const { engine } = setUp(1)
    const reason = new Error('no')
    await expect(engine.sample(request(), { signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
    const abort = new AbortController()
    const [busy, queued] = [
      engine.sample(request({ maxTokens: 8 })),
      engine.sample(request(), { signal: abort.signal }),
    ]
    abort.abort(reason)
    await expect(queued).rejects.toBe(reason)
    expect((await busy)[0]!.tokens.length).toBe(8)
    expect(engine.counts.tokens).toBe(8)
  })
})

describe('ends', () => {
  it('includes the stop token, and tells stop from length', async () => {
    const { engine } = setUp()
    const [free] = await engine.sample(request({ maxTokens: 10, stop: [] }))
    const third = free!.tokens[2]!
    const first = free!.tokens.indexOf(third)
    const [stopped] = await engine.sample(request({ maxTokens: 10, stop: [third] }))
    expect([...stopped!.tokens]).toEqual(Array.from(free!.tokens.slice(0, first + 1)))
    expect([free!.stopReason, stopped!.stopReason]).toEqual(['length', 'stop'])
    const [late] = await engine.sample(request({ maxTokens: first + 1, stop: [third] }))
    expect(late!.stopReason).toBe('stop')
  })

  it('takes the default stops only where the request names none', async () => {
    const everything = Array.from({ length: VOCAB }, (_, id) => id)
    const { engine } = setUp(3, { stop: everything })
    expect((await engine.sample(request()))[0]!.tokens.length).toBe(1)
    expect((await engine.sample(request({ stop: [] })))[0]!.tokens.length).toBe(6)
  })

  it('stops at strings', async () => {
    const decode = (list: readonly number[]) => list.map((id) => String.fromCharCode(65 + id)).join('')
    const { engine } = setUp(3, { decode })
    const [free] = await engine.sample(request({ maxTokens: 12 }))
    const stop = decode(Array.from(free!.tokens.slice(3, 6)))
    const [stopped] = await engine.sample(request({ maxTokens: 12, stop: [stop] }))
    expect(stopped!.tokens.length).toBe(6)
    expect(stopped!.stopReason).toBe('stop')
  })

  it('ends at the context', async () => {
    const { engine } = setUp()
    const [sequence] = await engine.sample(request({ maxTokens: 1000 }))
    expect(sequence!.tokens.length).toBe(37)
    expect(sequence!.stopReason).toBe('length')
  })
})

describe('refusals', () => {
  it('refuses bad requests before anything runs', async () => {
    const { engine, model } = setUp()
    await expect(engine.sample(request({ prompt: new Int32Array(40) }))).rejects.toThrow(ContextOverflowError)
    await expect(engine.sample(request({ maxTokens: 0 }))).rejects.toThrow(InvalidInputError)
    await expect(engine.sample(request({ stop: ['x'] }))).rejects.toThrow(/decode/)
    await expect(engine.logprobs(ids())).rejects.toThrow(/^logprobs: tokens is empty/)
    await expect(engine.logprobs(ids(1, VOCAB))).rejects.toThrow(/^logprobs: tokens\[1\] is 50/)
    await expect(engine.logprobs(ids(1, 2), { temperature: 0 })).rejects.toThrow(/temperature/)
    await expect(engine.logprobs(new Int32Array(41))).rejects.toThrow(/context/)
    expect(model.prepared).toEqual([])
    expect(() => new GenerationEngine(model, { seed: 0.5 })).toThrow(InvalidInputError)
  })

  it('names the completion whose log-prob is not finite, and keeps the others', async () => {
    const { engine, model } = setUp(3)
    const step = model.step.bind(model)
    model.step = async (kind, extent) => {
      await step(kind, extent)
      if (engine.counts.steps === 2) model.rows.probability[1] = NaN
    }
    const [first, second] = await Promise.allSettled([engine.sample(request()), engine.sample(request())])
    expect(first.status).toBe('fulfilled')
    expect(second).toMatchObject({ status: 'rejected', reason: { details: { sample: 0, position: 2 } } })
    expect(second.status === 'rejected' && second.reason).toBeInstanceOf(NonFiniteError)
  })

  it('rejects everything in flight with a typed error when a run fails, and works afterwards', async () => {
    const { engine, model } = setUp(1)
    model.beforeStep = (step) => {
      if (step === 1) throw new Error('no memory')
    }
    const results = await Promise.allSettled([engine.sample(request()), engine.sample(request())])
    for (const result of results)
      expect(result).toMatchObject({ status: 'rejected', reason: { code: 'sampling_failed' } })
    expect(results[0]!.status === 'rejected' && results[0].reason).toBeInstanceOf(SamplingError)
    expect(tokensOf(await engine.sample(request()))).toEqual(tokensOf(await setUp(1).engine.sample(request())))
    expect(model.live).toBe(0)
  })
})

describe('versions', () => {
  it('rejects calls on a live sampler after a step, those in flight too', async () => {
    let version = 3
    const { engine, model } = setUp(2, { version: () => version })
    const sampler = engine.sampler()
    const [sequence] = await sampler.sample(request())
    expect([sampler.policyVersion, sequence!.policyVersion]).toEqual([3, 3])
    model.beforeStep = (step) => {
      if (step === 8) version = 4
    }
    await expect(sampler.sample(request({ maxTokens: 20, numSamples: 5 }))).rejects.toThrow(StaleSamplerError)
    await expect(sampler.sample(request())).rejects.toThrow(StaleSamplerError)
    await expect(sampler.logprobs(ids(1, 2))).rejects.toThrow(StaleSamplerError)
    const [fresh] = await engine.sampler().sample(request())
    expect(fresh!.policyVersion).toBe(4)
    expect(model.prepared.at(-1)).toBe(4)
    expect(model.live).toBe(0)
  })

  it('takes nothing of a step in which the version moves, not even the last of a completion', async () => {
    let version = 0
    const { engine, model } = setUp(2, { version: () => version })
    model.beforeStep = (step) => {
      if (step === 5) version = 1
    }
    await expect(engine.sampler().sample(request({ maxTokens: 6 }))).rejects.toThrow(StaleSamplerError)
    expect(engine.counts.tokens).toBe(5)
    expect((await engine.sampler().sample(request({ maxTokens: 6 })))[0]!.policyVersion).toBe(1)
  })

  it('rejects what is pending when a sampler or the engine is disposed', async () => {
    const { engine } = setUp(1)
    const [one, two] = [engine.sampler(), engine.sampler()]
    const pending = one.sample(request({ maxTokens: 30 }))
    const other = two.sample(request())
    await one.dispose()
    await expect(pending).rejects.toThrow(DisposedError)
    await expect(one.sample(request())).rejects.toThrow(DisposedError)
    expect((await other)[0]!.tokens.length).toBe(6)
    const last = two.sample(request({ maxTokens: 30 }))
    await Promise.all([expect(last).rejects.toThrow(DisposedError), engine.dispose()])
    await expect(two.sample(request())).rejects.toThrow(DisposedError)
    await engine.dispose()
  })

  it('releases its memory between requests', async () => {
    const { engine, model } = setUp(1)
    const running = engine.sample(request())
    const released = engine.release()
    const after = engine.sample(request())
    expect(tokensOf(await running)).toEqual(tokensOf(await after))
    await released
    expect(model.released).toBe(1)
  })

  it.each([
    ['release', async (engine: GenerationEngine) => engine.release()],
    ['dispose', async (engine: GenerationEngine) => void (await Promise.all([engine.release(), engine.dispose()]))],
  ])('has the model to itself in %s, whatever is asked for meanwhile', async (_, leave) => {
    const { engine, model } = setUp(1)
    const users = { now: 0, most: 0 }
    const turn = () => new Promise((resolve) => setTimeout(resolve, 1))
    for (const name of ['prepare', 'step', 'release', 'dispose'] as const) {
      const work = model[name].bind(model) as (...given: unknown[]) => Promise<void>
      model[name] = async (...given: unknown[]) => {
        users.most = Math.max(users.most, ++users.now)
        await turn()
        await work(...given)
        users.now--
      }
    }
    await engine.sample(request())
    const left = leave(engine)
    const asked = [engine.sample(request())]
    await Promise.resolve()
    asked.push(engine.sample(request()))
    await Promise.all([left, Promise.allSettled(asked)])
    expect(users).toEqual({ now: 0, most: 1 })
  })
})
