import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { graph } from '../graph/index.js'
import type { Graph, Value } from '../graph/index.js'
import { createRuntime } from '../runtime/index.js'
import type { HostArray, Runtime, Tensor } from '../runtime/index.js'
import { TokenStream } from './random.js'
import { blocksOf, drawFiltered, drawGreedy, drawPlain } from './tail.js'

let runtime: Runtime
beforeAll(async () => {
  runtime = await createRuntime({ threads: 1 })
})
afterAll(() => runtime.dispose())

/** Standard normal numbers from a seed (Box and Muller 1958). */
function normals(seed: number, n: number): Float32Array {
  const stream = new TokenStream(seed, 0)
  const u = new Float32Array(2)
  return Float32Array.from({ length: n }, (_, i) => {
    stream.draw(i, u, 0)
    return Math.sqrt(-2 * Math.log(1 - u[0]!)) * Math.cos(2 * Math.PI * u[1]!)
  })
}

function softmax(logits: ArrayLike<number>, inverseTemperature: number): number[] {
  const scaled = Array.from(logits, (logit) => logit * inverseTemperature)
  const maximum = scaled.reduce((a, b) => Math.max(a, b), -Infinity)
  const weights = scaled.map((logit) => Math.exp(logit - maximum))
  const total = weights.reduce((a, b) => a + b, 0)
  return weights.map((weight) => weight / total)
}

/** The distribution after top-k, then the smallest set that reaches top-p: the definition, in double. */
function filter(probabilities: readonly number[], topK: number, topP: number) {
  const order = [...probabilities.keys()].toSorted((a, b) => probabilities[b]! - probabilities[a]! || a - b)
  const first = order.slice(0, topK || order.length)
  const mass = first.reduce((sum, id) => sum + probabilities[id]!, 0)
  const kept: number[] = []
  let sum = 0
  for (const id of first) {
    if (sum >= topP * mass) break
    kept.push(id)
    sum += probabilities[id]!
  }
  return { ids: new Set(kept), keptMass: sum, of: (id: number) => (kept.includes(id) ? probabilities[id]! / sum : 0) }
}

const S = 8

interface Rows {
  readonly logits: Float32Array
  readonly uniform?: Float32Array
  readonly inverseTemperature?: Float32Array
  readonly topK?: Int32Array
  readonly topP?: Float32Array
}
interface Drawn {
  readonly token: Int32Array
  readonly probability: Float32Array
  readonly keptMass: Float32Array
  readonly below: Int32Array
}

/** A session of one tail over 8 rows. */
async function session(vocabSize: number, build: (g: Graph, inputs: Record<keyof Rows, Value>) => object) {
  const g = graph()
  const inputs = {
    logits: g.input('logits', 'float32', [S, vocabSize]),
    uniform: g.input('uniform', 'float32', [S, 2]),
    inverseTemperature: g.input('inverseTemperature', 'float32', [S]),
    topK: g.input('topK', 'int32', [S]),
    topP: g.input('topP', 'float32', [S]),
  }
  const model = g.outputs({ ...build(g, inputs) } as Record<string, Value>)
  const compiled = await runtime.createSession(model)
  const tensors = model.inputs.map(
    ({ name, dtype, shape }) => [name, runtime.allocate(dtype, shape as number[])] as const,
  )
  const defaults = { uniform: new Float32Array(2 * S), inverseTemperature: new Float32Array(S).fill(1) }
  return async (rows: Rows): Promise<Drawn> => {
    const given: Record<string, HostArray | undefined> = { ...defaults, ...rows }
    for (const [name, tensor] of tensors) await (tensor as Tensor).write(given[name]!)
    const wanted = Object.fromEntries(model.outputs.map(({ name }) => [name, null]))
    const out = await compiled.run(Object.fromEntries(tensors), wanted)
    return Object.fromEntries(model.outputs.map(({ name }) => [name, out[name]!.data])) as unknown as Drawn
  }
}

const plain = (vocabSize: number) =>
  session(vocabSize, (g, { logits, uniform, inverseTemperature }) => drawPlain(g, logits, uniform, inverseTemperature))
const filtered = (vocabSize: number, candidates: number) =>
  session(vocabSize, (g, { logits, ...inputs }) => drawFiltered(g, logits, inputs, candidates))

/** The same row S times. */
const repeated = (row: ArrayLike<number>) =>
  Float32Array.from({ length: S * row.length }, (_, i) => row[i % row.length]!)

/** How often each token was drawn, over `runs` runs of S rows that differ only in their uniform numbers. */
async function countDraws(draw: (rows: Rows) => Promise<Drawn>, rows: Rows, vocabSize: number, runs: number) {
  const uniform = new Float32Array(2 * S)
  const streams = Array.from({ length: S }, (_, s) => new TokenStream(11, s))
  const counts = Array.from({ length: vocabSize }, () => 0)
  for (let run = 0; run < runs; run++) {
    streams.forEach((stream, s) => stream.draw(run, uniform, 2 * s))
    for (const token of (await draw({ ...rows, uniform })).token) counts[token]!++
  }
  return counts
}

/** Chi-square per degree of freedom beyond its mean, in standard deviations; cells of little expectation together. */
function deviation(counts: readonly number[], probability: (id: number) => number): number {
  const total = counts.reduce((a, b) => a + b, 0)
  let [statistic, cells, restCount, restExpected] = [0, 0, 0, 0]
  counts.forEach((got, id) => {
    const expected = total * probability(id)
    if (expected === 0) return void (statistic += got > 0 ? Infinity : 0)
    if (expected < 5) return void ([restCount, restExpected] = [restCount + got, restExpected + expected])
    statistic += (got - expected) ** 2 / expected
    cells++
  })
  if (restExpected >= 1) [statistic, cells] = [statistic + (restCount - restExpected) ** 2 / restExpected, cells + 1]
  return (statistic - (cells - 1)) / Math.sqrt(2 * Math.max(1, cells - 1))
}

const UNIFORM_EDGES = [0, 2 ** -24, 0.5, 1 - 2 ** -23, 1 - 2 ** -24]

describe('drawPlain', () => {
  it.each([
    [37, 1, 2],
    [64, 0.7, 3],
    [131, 1.5, 1],
    [1000, 1, 1.5],
  ])('follows softmax over %d tokens at temperature %d', async (vocabSize, temperature, spread) => {
    const logits = normals(vocabSize, vocabSize).map((x) => spread * x)
    const draw = await plain(vocabSize)
    const inverseTemperature = new Float32Array(S).fill(1 / temperature)
    const counts = await countDraws(draw, { logits: repeated(logits), inverseTemperature }, vocabSize, 2500)
    const exact = softmax(logits, 1 / temperature)
    expect(deviation(counts, (id) => exact[id]!)).toBeLessThan(4)
  })

  it('reports the probability of what it drew, each row at its own temperature', async () => {
    const vocabSize = 131
    const logits = normals(1, S * vocabSize).map((x) => 4 * x)
    const inverseTemperature = Float32Array.from({ length: S }, (_, s) => 0.4 + 0.3 * s)
    const draw = await plain(vocabSize)
    const { token, probability } = await draw({
      logits,
      inverseTemperature,
      uniform: normals(2, 2 * S).map((x) => Math.abs(x) % 1),
    })
    for (let s = 0; s < S; s++) {
      const exact = softmax(logits.subarray(s * vocabSize, (s + 1) * vocabSize), inverseTemperature[s]!)
      expect(Math.abs(Math.log(probability[s]!) - Math.log(exact[token[s]!]!))).toBeLessThan(1e-5)
    }
  })

  it.each([5, 64, 131, 509])('never draws what has no probability, of %d tokens', async (vocabSize) => {
    const draw = await plain(vocabSize)
    const { blocks, length } = blocksOf(vocabSize)
    expect(blocks * length).toBeGreaterThanOrEqual(vocabSize)
    for (const alive of [[0], [vocabSize - 1], [1, vocabSize - 2], [Math.floor(vocabSize / 2)]]) {
      const row = new Float32Array(vocabSize).fill(-Infinity)
      for (const id of alive) row[id] = 3
      for (const first of UNIFORM_EDGES) {
        const uniform = Float32Array.from({ length: 2 * S }, (_, i) => (i % 2 ? UNIFORM_EDGES[(i >> 1) % 5]! : first))
        const { token } = await draw({ logits: repeated(row), uniform })
        for (const id of token) expect(alive).toContain(id)
      }
    }
  })

  it('reaches the first and the last token', async () => {
    const draw = await plain(131)
    const uniform = new Float32Array(2 * S)
    uniform.fill(1 - 2 ** -24, S)
    const { token } = await draw({ logits: new Float32Array(S * 131), uniform })
    expect([...token]).toEqual([0, 0, 0, 0, 130, 130, 130, 130])
  })
})

describe('drawGreedy', () => {
  it('takes the first of the largest, with the log-prob at temperature 1', async () => {
    for (const vocabSize of [64, 131]) {
      const logits = normals(3, S * vocabSize)
      const draw = await session(vocabSize, (g, inputs) => drawGreedy(g, inputs.logits))
      for (let s = 0; s < S; s++) logits.fill(9, s * vocabSize + 7 * s + 5, s * vocabSize + 7 * s + 9)
      const { token, probability } = await draw({ logits })
      for (let s = 0; s < S; s++) {
        expect(token[s]).toBe(7 * s + 5)
        const exact = softmax(logits.subarray(s * vocabSize, (s + 1) * vocabSize), 1)
        expect(Math.abs(Math.log(probability[s]!) - Math.log(exact[7 * s + 5]!))).toBeLessThan(1e-5)
      }
    }
  })
})

describe('drawFiltered', () => {
  const vocabSize = 100
  const logits = normals(4, vocabSize)
  const exact = softmax(logits, 1 / 0.8)
  const rows = (topK: number, topP: number): Rows => ({
    logits: repeated(logits),
    inverseTemperature: new Float32Array(S).fill(1 / 0.8),
    topK: new Int32Array(S).fill(topK),
    topP: new Float32Array(S).fill(topP),
  })

  it.each([
    [5, 1],
    [1, 1],
    [0, 0.6],
    [0, 0.999],
    [20, 0.5],
    [3, 0.0001],
  ])('follows the definition at top-k %d, top-p %d', async (topK, topP) => {
    const draw = await filtered(vocabSize, vocabSize)
    const want = filter(exact, topK, topP)
    const counts = await countDraws(draw, rows(topK, topP), vocabSize, 1000)
    expect(deviation(counts, want.of)).toBeLessThan(4)
    const { keptMass, token, probability } = await draw(rows(topK, topP))
    keptMass.forEach((mass, s) => {
      expect(Math.abs(mass - want.keptMass)).toBeLessThan(1e-5)
      expect(Math.abs(Math.log(probability[s]!) - Math.log(exact[token[s]!]!))).toBeLessThan(1e-5)
    })
  })

  it('keeps rows with options of their own apart, at the edges of the uniform numbers too', async () => {
    const draw = await filtered(vocabSize, vocabSize)
    const topK = Int32Array.of(1, 2, 5, 0, 0, 10, 99, 3)
    const topP = Float32Array.of(1, 1, 0.5, 0.3, 0.9, 0.7, 1, 0.01)
    for (const u of UNIFORM_EDGES) {
      const uniform = new Float32Array(2 * S).fill(u)
      const { token, keptMass } = await draw({ ...rows(0, 1), topK, topP, uniform })
      for (let s = 0; s < S; s++) {
        const want = filter(exact, topK[s]!, topP[s]!)
        expect(want.ids.has(token[s]!)).toBe(true)
        expect(Math.abs(keptMass[s]! - want.keptMass)).toBeLessThan(1e-5)
      }
    }
  })

  it('gives the same bits with any number of candidates that suffices, and says when they do not', async () => {
    const topK = Int32Array.of(1, 2, 5, 0, 0, 10, 16, 3)
    const topP = Float32Array.of(1, 1, 0.5, 0.3, 0.9, 0.7, 1, 0.01)
    const uniform = normals(5, 2 * S).map((x) => Math.abs(x) % 1)
    const all = await (await filtered(vocabSize, vocabSize))({ ...rows(0, 1), topK, topP, uniform })
    const few = await (await filtered(vocabSize, 16))({ ...rows(0, 1), topK, topP, uniform })
    const enough = [0, 1, 2, 3, 5, 6, 7]
    const of = ({ token, probability, keptMass }: Drawn) => enough.map((s) => [token[s], probability[s], keptMass[s]])
    expect(of(few)).toEqual(of(all))
    expect(few.below[3]).toBeLessThan(16)
    expect([few.below[4], all.below[4]! >= 16]).toEqual([16, true])
  })

  it('keeps the whole mass of a flat distribution within 1', async () => {
    const { keptMass } = await (
      await filtered(1000, 999)
    )({
      logits: new Float32Array(S * 1000),
      topK: new Int32Array(S).fill(999),
      topP: new Float32Array(S).fill(1),
    })
    for (const mass of keptMass) expect(Math.abs(mass - 0.999)).toBeLessThan(1e-5)
  })
})

describe('a row of NaN', () => {
  it('shows in its own log-prob only', async () => {
    const logits = normals(6, S * 131)
    const topK = new Int32Array(S).fill(5)
    const topP = new Float32Array(S).fill(0.9)
    const greedy = await session(131, (g, inputs) => drawGreedy(g, inputs.logits))
    for (const draw of [await plain(131), await filtered(131, 64), greedy]) {
      const clean = await draw({ logits, topK, topP })
      const broken = await draw({ logits: logits.slice().fill(NaN, 3 * 131, 4 * 131), topK, topP })
      const others = ({ token, probability }: Drawn) => [0, 1, 2, 4, 5, 6, 7].map((s) => [token[s], probability[s]])
      expect(broken.probability[3]).toBeNaN()
      expect(others(broken)).toEqual(others(clean))
    }
  })
})
