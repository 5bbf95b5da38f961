import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { CheckpointError, type CriticClient, type ValueResult } from '@selfplay/engine'
import { describeCritic } from '@selfplay/engine/testing'
import { gradientName } from '../autodiff/index.js'
import { openSafetensors, readTensor, writeSafetensors } from '../checkpoint/index.js'
import { graph } from '../graph/index.js'
import { missingKernels } from '../graph/kernel-check.js'
import { loadKernelTables } from '../graph/testing/kernels.js'
import { loadActorCritics, loadCritic } from '../load-critic.js'
import { decoder, decoderInputs } from '../models/decoder.js'
import { Layers } from '../models/layers.js'
import {
  decoderFeeds,
  FIXTURES,
  loadFixture,
  parameterWeights,
  runOnce,
  type Fixture,
} from '../models/testing/fixtures.js'
import { FINAL_NORM } from '../models/weights.js'
import { createRuntime, type Runtime, type Session } from '../runtime/index.js'
import { LORA_DEFAULTS } from '../models/lora.js'
import { VALUE_HEAD_FILE } from './value-client.js'
import { initialValueHead, VALUE_HEAD, valueGraph, valueHeadWeights, valueOutputs } from './value-head.js'

let runtime: Runtime
let folder: string
beforeAll(async () => {
  runtime = await createRuntime({ threads: 1 })
  folder = await mkdtemp(join(tmpdir(), 'selfplay-value-head-'))
})
afterAll(async () => {
  await runtime.dispose()
  await rm(folder, { recursive: true, force: true })
})

const path = (name: string) => fileURLToPath(new URL(`../../../../fixtures/models/${name}`, import.meta.url))
const options = { threads: 1, slots: 2, contextLength: 64, seed: 3 } as const

describeCritic('a value head on a whole decoder', { makeCritic: () => loadCritic(path('qwen2'), options) })
describeCritic('a value head on a low-rank adapter', {
  makeCritic: () => loadCritic(path('llama3'), { ...options, training: { rank: 4 } }),
})

const plain = { loss: { clipRange: null } } as const

/** Values, losses and gradients of one graph at the last token of each row of a fixture. */
async function runValues(fixture: Fixture, weights: ReadonlyMap<string, Float32Array>) {
  const { config, batch, seq, ids, numbers } = fixture
  const head = valueHeadWeights(config.hiddenSize)
  const model = valueGraph({ config, training: 'full', file: () => undefined }, head, plain)
  const rows = Int32Array.from(numbers.lens, (length, row) => row * seq + length - 1)
  const feeds = {
    ...decoderFeeds(config, ids, seq),
    ...Object.fromEntries(weights),
    rows,
    value_targets: Float32Array.from(rows, (_, n) => 0.5 - n),
    value_weights: Float32Array.from(rows, (_, n) => 1 + n),
  }
  return runOnce(runtime, model, feeds, { batch, seq, n: rows.length })
}

/** The fixture's weights with a head whose outputs are not tiny. */
function withHead({ config, weights }: Fixture): Map<string, Float32Array> {
  const all = new Map(weights)
  for (const spec of valueHeadWeights(config.hiddenSize)) {
    all.set(
      spec.name,
      initialValueHead(spec, 1).map((value, i) => 8 * value + (spec.name.endsWith('bias') ? 0.1 * Math.sin(i) : 0)),
    )
  }
  return all
}

describe.each(FIXTURES)('the value head on %s', (name) => {
  it('is Linear-Tanh-Linear on the hidden state behind the final norm', async () => {
    const fixture = await loadFixture(name)
    const weights = withHead(fixture)
    const { values } = await runValues(fixture, weights)
    const { hiddenSize } = fixture.config
    const hidden = await hiddenOf(fixture)
    const [w0, b0, w2, b2] = Object.values(VALUE_HEAD).flatMap(({ weight, bias }) => [
      weights.get(weight)!,
      weights.get(bias)!,
    ])
    fixture.numbers.lens.forEach((length, row) => {
      const at = (row * fixture.seq + length - 1) * hiddenSize
      const inner = Array.from(b0!, (bias, i) =>
        Math.tanh(bias + dot(w0!.subarray(i * hiddenSize, (i + 1) * hiddenSize), hidden.subarray(at, at + hiddenSize))),
      )
      expect(values![row]!).toBeCloseTo(b2![0]! + dot(w2!, Float32Array.from(inner)), 4)
    })
  })

  it('has the gradient of its loss: central differences along it, and along each kind of weight', async () => {
    const fixture = await loadFixture(name)
    const weights = withHead(fixture)
    const out = await runValues(fixture, weights)
    const sum = (values: Float32Array) => values.reduce((a, b) => a + b, 0)
    const names = [...weights.keys()].filter((key) => out[gradientName(key)])
    expect(names.length).toBe(weights.size - (weights.has('lm_head.weight') ? 1 : 0))
    const kinds = [names, [VALUE_HEAD.inner.weight], [VALUE_HEAD.outer.bias], ['model.norm.weight']]
    for (const group of kinds) {
      const squares = group.reduce((total, key) => total + sum(out[gradientName(key)]!.map((x) => x * x)), 0)
      const h = 2e-3 / Math.sqrt(squares)
      const at = async (step: number) => {
        const moved = new Map(weights)
        for (const key of group) {
          const slope = out[gradientName(key)]!
          moved.set(
            key,
            Float32Array.from(weights.get(key)!, (x, i) => x + step * slope[i]!),
          )
        }
        return sum((await runValues(fixture, moved)).losses!)
      }
      const slope = ((await at(h)) - (await at(-h))) / (2 * h)
      expect({ group: group.length, holds: Math.abs(slope / squares - 1) < 2e-2 }).toMatchObject({ holds: true })
    }
  })
})

const dot = (a: Float32Array, b: Float32Array) => a.reduce((total, x, i) => total + x * b[i]!, 0)

/** Hidden states after the final norm, [batch * seq, hidden], from the decoder alone. */
async function hiddenOf({ config, batch, seq, ids, weights }: Fixture): Promise<Float32Array> {
  const g = graph()
  const source = parameterWeights(g)
  const hidden = new Layers(g, config, source).norm(decoder(g, config, decoderInputs(g, config), source), FINAL_NORM)
  const feeds = { ...decoderFeeds(config, ids, seq), ...Object.fromEntries(weights) }
  return (await runOnce(runtime, g.outputs({ hidden }), feeds, { batch, seq })).hidden!
}

describe('value graphs', () => {
  it('use ops that have kernels on cpu, cuda and webgpu', async () => {
    const tables = loadKernelTables()
    for (const name of FIXTURES) {
      const { config } = await loadFixture(name)
      for (const training of ['full', LORA_DEFAULTS] as const) {
        for (const clipRange of [null, 0.2]) {
          const g = graph({ providers: ['cpu', 'cuda', 'webgpu'] })
          const plan = { config, training, file: () => undefined }
          const outputs = valueOutputs(g, plan, valueHeadWeights(config.hiddenSize), { loss: { clipRange } })
          expect(missingKernels(Object.values(outputs), tables)).toEqual([])
        }
      }
    }
  })

  it('a new head is normal with standard deviation 0.02, without bias, and repeats from its seed', () => {
    const spec = { name: VALUE_HEAD.inner.weight, shape: [100, 101] }
    const values = initialValueHead(spec, 5)
    const mean = values.reduce((a, b) => a + b, 0) / values.length
    const std = Math.sqrt(values.reduce((a, b) => a + (b - mean) ** 2, 0) / values.length)
    expect(Math.abs(mean)).toBeLessThan(1e-3)
    expect(std).toBeCloseTo(0.02, 3)
    const within = values.filter((value) => Math.abs(value) < 0.02).length / values.length
    expect(within).toBeCloseTo(0.683, 1)
    expect(initialValueHead(spec, 5)).toEqual(values)
    expect(initialValueHead(spec, 6)).not.toEqual(values)
    expect(initialValueHead({ name: VALUE_HEAD.inner.bias, shape: [3] }, 5)).toEqual(new Float32Array(3))
  })
})

describe('loadCritic', () => {
  const sequences = [Int32Array.of(1, 2, 3), Int32Array.of(4, 5)]
  const train = async (critic: CriticClient) => {
    await critic.forwardBackwardValues(sequences, Float32Array.of(1, -1))
    await critic.optimStep({ learningRate: 1e-2 })
  }

  it.each(['merged', 'adapter'] as const)('reads back what it exported (%s)', async (format) => {
    const training = format === 'adapter' ? { rank: 2, alpha: 4 } : ('full' as const)
    const critic = await loadCritic(path('qwen2'), { ...options, training, valueHead: { hiddenSize: 6 } })
    await train(critic)
    const target = join(folder, `exported-${format}`)
    await critic.exportModel(target, { format })
    const again =
      format === 'adapter'
        ? await loadCritic(path('qwen2'), { ...options, adapter: target })
        : await loadCritic(target, options)
    expect(await again.values(sequences)).toEqual(await critic.values(sequences))
    await Promise.all([critic, again].map((one) => one.dispose()))
  })

  it('refuses a head that is newer, damaged, or of another width', async () => {
    const critic = await loadCritic(path('qwen2'), options)
    const target = join(folder, 'damaged')
    await critic.exportModel(target)
    await critic.dispose()
    await expect(loadCritic(target, { ...options, valueHead: { hiddenSize: 3 } })).rejects.toThrow(/leave it out/)
    // Without a manifest the folder is anybody's; with it, the changed file itself would be noticed first.
    await rm(join(target, 'manifest.json'))
    const head = join(target, VALUE_HEAD_FILE)
    const { tensors, metadata } = await openSafetensors(head)
    const sources = await Promise.all(
      [...tensors.values()].map(async ({ name, shape, ...entry }) => {
        const values = await readTensor({ name, shape, ...entry })
        return { name, shape, dtype: 'F32' as const, read: () => values }
      }),
    )
    await writeSafetensors(head, sources, { metadata: { ...metadata, formatVersion: '2' } })
    await expect(loadCritic(target, options)).rejects.toThrow(/format version 2/)
    await writeSafetensors(head, sources.slice(1), { metadata })
    await expect(loadCritic(target, options)).rejects.toThrow(CheckpointError)
    await expect(loadCritic(path('qwen2'), { ...options, valueHead: { hiddenSize: 0 } })).rejects.toThrow(/hiddenSize/)
  })

  it('refuses calls that wait while it is disposed, and leaves no session behind', async () => {
    const sessions = new Set<Session>()
    const create = runtime.createSession.bind(runtime)
    runtime.createSession = async (...args) => {
      const session = await create(...args)
      sessions.add(session)
      const dispose = session.dispose.bind(session)
      session.dispose = () => (sessions.delete(session), dispose())
      return session
    }
    const critic = await loadCritic(path('qwen2'), { runtime, slots: 2, contextLength: 64 })
    const running = critic.values(sequences)
    await new Promise(setImmediate)
    const waiting = critic.forwardBackwardValues(sequences, Float32Array.of(1, -1))
    const [values, refused] = await Promise.allSettled([running, waiting, critic.dispose()])
    expect(values).toMatchObject({ status: 'fulfilled', value: { length: 2 } })
    expect(refused).toMatchObject({ status: 'rejected', reason: { code: 'disposed' } })
    expect(sessions.size).toBe(0)
    runtime.createSession = create
  })

  it.each(['qwen2', 'qwen3'])('gives on two threads, side by side, what it gives on one (%s)', async (name) => {
    const long = Array.from({ length: 24 }, (_, i) =>
      Int32Array.from({ length: 30 + i }, (_, t) => (7 * i + 5 * t) % 90),
    )
    const targets = Float32Array.from(long, (_, i) => Math.sin(i))
    const train = async (threads: number) => {
      const own = await createRuntime({ threads })
      const create = vi.spyOn(own, 'createSession')
      const critic = await loadCritic(path(name), { runtime: own, slots: 2, contextLength: 64, seed: 3 })
      create.mockClear()
      const results = [await critic.forwardBackwardValues(long, targets), await critic.values(long)]
      const step = await critic.optimStep({ learningRate: 1e-2 })
      results.push(await critic.forwardBackwardValues(long, targets))
      const options = create.mock.calls.map(([, given]) => given)
      await critic.dispose()
      await own.dispose()
      return { results, step, options }
    }
    const [one, two, again] = [await train(1), await train(2), await train(2)]
    expect(two.options).toMatchObject([1, 2].map(() => ({ threads: 1, concurrent: true })))
    expect(again.results).toEqual(two.results)
    expect(again.step).toEqual(two.step)
    expect(two.step.gradNorm / one.step.gradNorm).toBeCloseTo(1, 5)
    const [first, values, next] = two.results as [ValueResult, Float32Array, ValueResult]
    const [wanted, , later] = one.results as [ValueResult, Float32Array, ValueResult]
    expect(values).toEqual(first.values)
    expect(first.loss).toBeCloseTo(wanted.loss, 5)
    expect(next.loss).toBeCloseTo(later.loss, 4)
    first.values.forEach((value, i) => expect(value).toBeCloseTo(wanted.values[i]!, 5))
  })

  it('trains policy and values with one step on one set of weights', async () => {
    const [actor] = await loadActorCritics(path('qwen2'), 1, options)
    const datum = { tokens: Int32Array.of(1, 2, 3), targets: Int32Array.of(2, 3, 4) }
    const before = await actor!.values(sequences)
    const policy = (await actor!.forward([datum], { name: 'cross_entropy' })).logprobs
    await actor!.forwardBackward([datum], { name: 'cross_entropy' })
    await actor!.forwardBackwardValues(sequences, Float32Array.of(1, -1), { coef: 0.6 })
    await actor!.optimStep({ learningRate: 1e-3 })
    expect(actor!.step).toBe(1)
    expect(await actor!.values(sequences)).not.toEqual(before)
    expect((await actor!.forward([datum], { name: 'cross_entropy' })).logprobs).not.toEqual(policy)
    const [sequence] = await (await actor!.sampler()).sample({ prompt: Int32Array.of(1), maxTokens: 2 })
    expect(sequence!.policyVersion).toBe(1)
    await actor!.dispose()
  })
})
