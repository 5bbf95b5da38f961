import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Graph, graph, type Value } from '../graph/index.js'
import { createRuntime, type Runtime, type Tensor } from '../runtime/index.js'
import { cacheHeadDim } from './cached-attention.js'
import type { ModelConfig } from './config.js'
import { cacheNames, cacheOutputs, decodeStep, prefill } from './decode.js'
import { ropeTables } from './rope.js'
import { decoder, decoderInputs } from './decoder.js'
import { type DecoderWeights, Layers } from './layers.js'
import {
  decoderFeeds,
  distance,
  FIXTURES,
  type Fixture,
  frozenWeights,
  loadAdapter,
  loadFixture,
  parameterWeights,
  runOnce,
  weightTensors,
} from './testing/fixtures.js'
import { FINAL_NORM, headWeightName } from './weights.js'

let runtime: Runtime
beforeAll(async () => {
  runtime = await createRuntime({ threads: 2 })
})
afterAll(() => runtime.dispose())

const ints = (data: readonly number[], dims: readonly number[]) => runtime.tensor('int32', Int32Array.from(data), dims)

function ropeInputs(config: ModelConfig, positions: number) {
  const { cos, sin } = ropeTables(config, positions)
  const dims = [positions, config.headDim / 2]
  return { rope_cos: runtime.tensor('float32', cos, dims), rope_sin: runtime.tensor('float32', sin, dims) }
}

/** Logits [batch, vocabulary] and caches of right-padded prompts. */
async function runPrefill(
  fixture: Fixture,
  prompts: readonly (readonly number[])[],
  config: ModelConfig = fixture.config,
) {
  const g = graph({ providers: ['cpu', 'webgpu'] })
  const read = prefill(g, config, frozenWeights(g))
  const model = g.outputs({ logits: read.logits, ...cacheOutputs(read.present) })
  const session = await runtime.createSession(model, { weights: weightTensors(runtime, fixture) })
  const seq = Math.max(...prompts.map((prompt) => prompt.length))
  const padded = prompts.flatMap((prompt) => [...prompt, ...Array<number>(seq - prompt.length).fill(0)])
  const last = prompts.map((prompt) => prompt.length - 1)
  const outputs = await session.run(
    {
      tokens: ints(padded, [prompts.length, seq]),
      last: ints(last, [prompts.length]),
      total_length: ints([seq], []),
      ...ropeInputs(config, seq),
    },
    Object.fromEntries(model.outputs.map(({ name }) => [name, null])),
  )
  return { session, outputs, seq }
}

/** Rows that decode side by side from prefilled prompts. */
class Decoding {
  readonly fixture: Fixture
  readonly slots: number
  readonly length: number
  readonly caches: Record<string, Tensor<'float32'>> = {}

  readonly config: ModelConfig
  readonly build: (g: Graph) => DecoderWeights

  constructor(
    fixture: Fixture,
    slots: number,
    length: number,
    { config = fixture.config, build = frozenWeights }: Partial<Pick<Decoding, 'config' | 'build'>> = {},
  ) {
    this.fixture = fixture
    this.config = config
    this.build = build
    this.slots = slots
    this.length = length
    const { numLayers, numKvHeads } = fixture.config
    const headDim = cacheHeadDim(fixture.config)
    for (let layer = 0; layer < numLayers; layer++) {
      for (const name of Object.values(cacheNames(layer)).slice(0, 2)) {
        this.caches[name] = runtime.allocate('float32', [slots, numKvHeads, length, headDim])
      }
    }
  }

  /** Copies the first `count` positions of row `from` of a prefill into a slot. */
  load(outputs: Readonly<Record<string, Tensor>>, seq: number, from: number, slot: number, count: number) {
    const { numLayers, numKvHeads } = this.fixture.config
    const headDim = cacheHeadDim(this.fixture.config)
    for (let layer = 0; layer < numLayers; layer++) {
      const names = cacheNames(layer)
      for (const [past, present] of [
        [names.pastKey, names.presentKey],
        [names.pastValue, names.presentValue],
      ] as const) {
        const source = outputs[present]!.data as Float32Array
        for (let head = 0; head < numKvHeads; head++) {
          const start = (from * numKvHeads + head) * seq * headDim
          const to = (slot * numKvHeads + head) * this.length * headDim
          this.caches[past]!.data!.set(source.subarray(start, start + count * headDim), to)
        }
      }
    }
  }

  async session(adapter: Record<string, Tensor> = {}) {
    const { config } = this
    const g = graph({ providers: ['cpu', 'webgpu'] })
    const step = decodeStep(g, config, this.build(g))
    const model = g.outputs({ logits: step.logits, ...cacheOutputs(step.present) })
    const session = await runtime.createSession(model, { weights: weightTensors(runtime, this.fixture) })
    const rope = ropeInputs(config, this.length)
    const present = Object.fromEntries(
      Array.from({ length: config.numLayers }, (_, layer) => cacheNames(layer)).flatMap((names) => [
        [names.presentKey, this.caches[names.pastKey]!],
        [names.presentValue, this.caches[names.pastValue]!],
      ]),
    )
    const run = async (tokens: readonly number[], positions: readonly number[]) => {
      const logits = runtime.allocate('float32', [this.slots, config.vocabSize])
      await session.run(
        {
          tokens: ints(tokens, [this.slots]),
          positions: ints(positions, [this.slots]),
          total_length: ints([Math.max(...positions) + 1], []),
          ...rope,
          ...this.caches,
          ...adapter,
        },
        { logits, ...present },
      )
      const { vocabSize } = config
      return tokens.map((_, row) => logits.data!.slice(row * vocabSize, (row + 1) * vocabSize))
    }
    return { run, dispose: () => session.dispose() }
  }
}

function best(logits: Float32Array): { token: number; logprob: number } {
  const maximum = Math.max(...logits)
  const total = logits.reduce((sum, logit) => sum + Math.exp(logit - maximum), 0)
  return { token: logits.indexOf(maximum), logprob: -Math.log(total) }
}

describe.each(FIXTURES)('%s', (name) => {
  it('decodes the golden greedy tokens in every row, whatever the other rows hold', async () => {
    const fixture = await loadFixture(name)
    const { greedy_prompt: prompt, greedy_tokens, greedy_logprobs } = fixture.numbers
    const other = [...fixture.ids.subarray(fixture.seq, fixture.seq + 3)]
    const { session, outputs, seq } = await runPrefill(fixture, [prompt, other])
    const first = best((outputs.logits!.data as Float32Array).subarray(0, fixture.config.vocabSize))
    expect(first.token).toBe(greedy_tokens[0])
    expect(Math.abs(first.logprob - greedy_logprobs[0]!)).toBeLessThan(1e-4)
    const decoding = new Decoding(fixture, 3, 32)
    decoding.load(outputs, seq, 0, 0, prompt.length - 1) // the last prompt token is fed by the first step
    decoding.load(outputs, seq, 1, 1, other.length)
    decoding.load(outputs, seq, 0, 2, prompt.length)
    const { run, dispose } = await decoding.session()
    let tokens = [prompt.at(-1)!, 5, first.token]
    let positions = [prompt.length - 1, other.length, prompt.length]
    for (let n = 0; n < greedy_tokens.length - 1; n++) {
      const rows = (await run(tokens, positions)).map(best)
      expect([rows[0]!.token, rows[2]!.token]).toEqual([greedy_tokens[n], greedy_tokens[n + 1]])
      expect(Math.abs(rows[0]!.logprob - greedy_logprobs[n]!)).toBeLessThan(1e-4)
      tokens = rows.map((row) => row.token)
      positions = positions.map((position) => position + 1)
    }
    await dispose()
    await session.dispose()
  })
})

/** Logits after every token of one row, fed one at a time from an empty cache. */
async function stepThrough(decoding: Decoding, tokens: readonly number[], adapter: Record<string, Tensor> = {}) {
  const { run, dispose } = await decoding.session(adapter)
  const rows: Float32Array[] = []
  for (const [position, token] of tokens.entries()) rows.push((await run([token], [position]))[0]!)
  await dispose()
  return rows
}

const logprob = (logits: Float32Array, token: number) => {
  const maximum = Math.max(...logits)
  return logits[token]! - maximum - Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit - maximum), 0))
}

describe.each(FIXTURES)('%s', (name) => {
  it('decodes with an adapter, whose matrices are inputs, as the published model does', async () => {
    const fixture = await loadFixture(name)
    const { lora, adapterTensors } = await loadAdapter(fixture)
    const build = (g: Graph) => ({ ...frozenWeights(g), lora: lora(g) })
    const tokens = [...fixture.ids.subarray(0, fixture.seq)]
    const rows = await stepThrough(new Decoding(fixture, 1, 16, { build }), tokens, adapterTensors(runtime))
    const golden = fixture.golden.get('lora_target_logprobs')!
    tokens.slice(1).forEach((token, t) => expect(Math.abs(logprob(rows[t]!, token) - golden[t]!)).toBeLessThan(1e-4))
  })

  it('sees the tokens of a sliding window, itself included, as the training graph does', async () => {
    const fixture = await loadFixture(name)
    const { seq } = fixture
    const config = { ...fixture.config, windows: [4, 7] }
    const tokens = fixture.ids.slice(0, seq)
    const g = graph()
    const hidden = decoder(g, config, decoderInputs(g, config), parameterWeights(g))
    const feeds = { ...decoderFeeds(config, tokens, seq), ...Object.fromEntries(fixture.weights) }
    const { logits } = await runOnce(runtime, g.outputs({ logits: headLogits(g, config, hidden) }), feeds, {
      batch: 1,
      seq,
    })
    const want = (t: number) => logits!.subarray(t * config.vocabSize, (t + 1) * config.vocabSize)
    const full = fixture.golden.get('logits')!.subarray((seq - 1) * config.vocabSize, seq * config.vocabSize)
    expect(distance(want(seq - 1), full)).toBeGreaterThan(1e-3)
    const rows = await stepThrough(new Decoding(fixture, 1, 16, { config }), [...tokens])
    rows.forEach((row, t) => expect(distance(row, want(t))).toBeLessThan(1e-4))
    const lengths = [3, 5, 12]
    const { outputs, session } = await runPrefill(
      fixture,
      lengths.map((length) => Array.from(tokens.subarray(0, length))),
      config,
    )
    const ends = outputs.logits!.data as Float32Array
    lengths.forEach((length, i) => {
      const row = ends.subarray(i * config.vocabSize, (i + 1) * config.vocabSize)
      expect(distance(row, want(length - 1))).toBeLessThan(1e-4)
    })
    await session.dispose()
  })
})

function headLogits(g: Graph, config: ModelConfig, hidden: Value): Value {
  const layers = new Layers(g, config, parameterWeights(g))
  const head = layers.weight(headWeightName(config), [config.vocabSize, config.hiddenSize])
  return g.gemm(layers.norm(hidden, FINAL_NORM), head, undefined, { transB: true })
}
