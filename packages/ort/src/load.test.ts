import { cp, mkdir, mkdtemp, readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { CheckpointError, InvalidInputError, SelfplayError } from '@selfplay/engine'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { openAdapterFolder, openModelFolder } from './checkpoint/index.js'
import { writeSafetensors } from './checkpoint/safetensors-writer.js'
import { loadCritic } from './load-critic.js'
import { loadAgents, loadTrainingClient } from './load.js'
import { readModelConfig } from './models/config.js'
import { modelWeights } from './models/weights.js'
import { NativeRuntime } from './runtime/native.js'

const fixture = (name: string) => fileURLToPath(new URL(`../../../fixtures/models/${name}`, import.meta.url))
const OPTIONS = { threads: 1, slots: 2, contextLength: 64 } as const

let scratch: string
beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'selfplay-load-'))
})
afterAll(() => rm(scratch, { recursive: true, force: true }))

async function damaged(name: string, change: (folder: string) => Promise<void>): Promise<string> {
  const folder = join(scratch, name)
  await cp(fixture('qwen2'), folder, { recursive: true })
  await change(folder)
  return folder
}

const editConfig = (edit: (config: Record<string, unknown>) => void) => async (folder: string) => {
  const path = join(folder, 'config.json')
  const config = JSON.parse(await readFile(path, 'utf8')) as Record<string, unknown>
  edit(config)
  await writeFile(path, JSON.stringify(config))
}

describe('a model that cannot be loaded', () => {
  it.each<[string, (folder: string) => Promise<void>, string, RegExp]>([
    ['no such folder', (folder) => rm(folder, { recursive: true }), 'checkpoint', /folder/],
    ['no weights', (folder) => rm(join(folder, 'model.safetensors')), 'checkpoint', /model\.safetensors/],
    ['a truncated file', (folder) => truncate(join(folder, 'model.safetensors'), 5000), 'checkpoint', /safetensors/],
    [
      'an unknown architecture',
      editConfig((config) => (config['architectures'] = ['MambaForCausalLM'])),
      'unsupported_model',
      /Qwen3ForCausalLM/,
    ],
    [
      'weights of other sizes',
      editConfig((config) => (config['hidden_size'] = 96)),
      'weight_mismatch',
      /expected \[131, 96\].*got \[131, 48\]/,
    ],
    ['a layer too many', editConfig((config) => (config['num_hidden_layers'] = 3)), 'weight_mismatch', /layers\.2/],
  ])('%s', async (name, change, code, message) => {
    const folder = await damaged(name, change)
    const failure = await loadTrainingClient(folder, OPTIONS).catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(SelfplayError)
    expect(failure).toMatchObject({ code })
    expect((failure as Error).message).toMatch(message)
  })

  it.each<[string, () => Promise<unknown>, RegExp]>([
    ['zero agents', () => loadAgents(fixture('qwen2'), 0, OPTIONS), /agents >= 1, got 0/],
    [
      'an unknown mode',
      () => loadAgents(fixture('qwen2'), 2, { mode: 'twins' as 'shared' }),
      /separate, adapters or shared/,
    ],
    ['rank 0', () => loadTrainingClient(fixture('qwen2'), { ...OPTIONS, training: { rank: 0 } }), /lora\.rank/],
    [
      'a rank above that of any target layer',
      () => loadTrainingClient(fixture('qwen2'), { ...OPTIONS, training: { rank: 100_000_000 } }),
      /lora\.rank must be at most 48, .*; got 100000000/,
    ],
    [
      'a rank above that of the target layers that are named',
      () => loadAgents(fixture('qwen2'), 2, { ...OPTIONS, mode: 'adapters', lora: { rank: 17, targets: ['k_proj'] } }),
      /lora\.rank must be at most 16, since no update of k_proj .*; got 17/,
    ],
    [
      'an unknown target',
      () => loadTrainingClient(fixture('qwen2'), { ...OPTIONS, training: { targets: ['query'] } }),
      /q_proj.*got query/,
    ],
    [
      'an option that there is not',
      () => loadTrainingClient(fixture('qwen2'), { ...OPTIONS, contextlength: 9 } as object),
      /unknown option "contextlength" \(did you mean "contextLength"\?\)/,
    ],
    [
      'one of agents',
      () => loadAgents(fixture('qwen2'), 2, { ...OPTIONS, theads: 1 } as object),
      /unknown option "theads" \(did you mean "threads"\?\)/,
    ],
    [
      'one of critics',
      () => loadCritic(fixture('qwen2'), { ...OPTIONS, valuehead: {} } as object),
      /unknown option "valuehead" \(did you mean "valueHead"\?\)/,
    ],
    [
      'one of an adapter',
      () => loadAgents(fixture('qwen2'), 2, { ...OPTIONS, mode: 'adapters', lora: { rnk: 4 } as object }),
      /lora: unknown option "rnk" \(did you mean "rank"\?\)/,
    ],
    [
      'another training',
      () => loadTrainingClient(fixture('qwen2'), { ...OPTIONS, training: 'lora' as 'full' }),
      /training: expected "full", or the options of an adapter/,
    ],
    [
      'no memory for activations',
      () => loadTrainingClient(fixture('qwen2'), { ...OPTIONS, activationBytes: Number.NaN }),
      /activationBytes: expected at least 65536, got NaN/,
    ],
    ['a context beyond the model', () => loadTrainingClient(fixture('qwen2'), { contextLength: 1e6 }), /from 2 to 256/],
  ])('refuses %s', async (_, load, message) => {
    await expect(load()).rejects.toThrow(InvalidInputError)
    await expect(load()).rejects.toThrow(message)
  })
})

describe('agents', () => {
  const tokens = Int32Array.from([5, 9, 11, 30, 7])
  const data = [{ tokens: tokens.slice(0, -1), targets: tokens.slice(1) }]

  it('start from byte-identical weights and then go their own ways', async () => {
    for (const mode of ['separate', 'adapters'] as const) {
      const [first, second] = await loadAgents(fixture('llama3'), 2, { ...OPTIONS, mode })
      const logprobs = async (agent: typeof first) => (await agent!.sampler()).logprobs(tokens)
      const start = await logprobs(first)
      expect(await logprobs(second)).toEqual(start)
      for (let step = 0; step < 2; step++) {
        await first!.forwardBackward(data, { name: 'cross_entropy' })
        await first!.optimStep({ learningRate: 1e-2 })
      }
      expect(await logprobs(second)).toEqual(start)
      expect(await logprobs(first)).not.toEqual(start)
      await Promise.all([first!.dispose(), second!.dispose()])
    }
  })

  it('are one client when shared', async () => {
    const agents = await loadAgents(fixture('qwen2'), 3, { ...OPTIONS, mode: 'shared' })
    expect(new Set(agents).size).toBe(1)
    await agents[0]!.dispose()
  })

  it('export and save over what they wrote themselves, and over nothing else', async () => {
    const client = await loadTrainingClient(fixture('qwen2'), { ...OPTIONS, training: { rank: 2 } })
    const own = join(scratch, 'own')
    await client.exportModel(own)
    await client.exportModel(own, { format: 'adapter' })
    await client.saveState(own)
    await client.exportModel(own)
    await openModelFolder(own)
    await writeFile(join(own, 'notes.txt'), 'mine')
    for (const write of [() => client.exportModel(own), () => client.saveState(own)]) {
      await expect(write()).rejects.toThrow(CheckpointError)
      await expect(write()).rejects.toThrow(/got a folder with "notes\.txt"/)
    }
    await openModelFolder(own)
    expect(await readFile(join(own, 'notes.txt'), 'utf8')).toBe('mine')
    await client.dispose()
  })

  it('train on the adapter that they are given, and export it, whole and merged', async () => {
    const client = await loadTrainingClient(fixture('qwen2'), { ...OPTIONS, adapter: fixture('qwen2/lora') })
    expect(client.info).toMatchObject({ training: { loraRank: 4 }, sideBySide: true })
    const sampler = await client.sampler()
    const before = await sampler.logprobs(tokens)
    await client.exportModel(join(scratch, 'adapter'), { format: 'adapter' })
    await client.exportModel(join(scratch, 'merged'), { format: 'merged' })
    await client.exportModel(join(scratch, 'merged16'), { format: 'merged', dtype: 'float16' })
    await client.dispose()
    expect((await openAdapterFolder(join(scratch, 'adapter'))).alpha).toBe(8)
    expect((await openModelFolder(join(scratch, 'merged16'))).tensors.get('model.norm.weight')!.dtype).toBe('F16')
    for (const [path, adapter, tolerance] of [
      ['merged', undefined, 1e-4],
      ['merged16', undefined, 2e-2],
      ['', 'adapter', 1e-4],
    ] as const) {
      const again = await loadTrainingClient(path ? join(scratch, path) : fixture('qwen2'), {
        ...OPTIONS,
        ...(adapter && { adapter: join(scratch, adapter) }),
      })
      const after = await (await again.sampler()).logprobs(tokens)
      after.forEach((logprob, t) => expect(Math.abs(logprob - before[t]!)).toBeLessThan(tolerance))
      await again.dispose()
    }
  })
})

describe('a load that is given up', () => {
  it('lets go of its runtime, wherever it stops', async () => {
    const dispose = vi.spyOn(NativeRuntime.prototype, 'dispose')
    const loads = [
      () => loadTrainingClient(fixture('qwen2'), { ...OPTIONS, slots: 0 }),
      () => loadAgents(fixture('qwen2'), 2, { ...OPTIONS, mode: 'adapters', seed: 0.5 }),
      () => loadCritic(fixture('qwen2'), { ...OPTIONS, valueHead: { hiddenSize: -1 } }),
    ]
    for (const load of loads) {
      dispose.mockClear()
      await expect(load()).rejects.toThrow(InvalidInputError)
      expect(dispose).toHaveBeenCalledTimes(1)
    }
    dispose.mockRestore()
  })
})

describe('memory', () => {
  it('check 17: of 2000 prompt tokens and 16 trained ones, the head sees the 16', async () => {
    const [hiddenSize, vocabSize, T] = [8, 32_768, 2016]
    const config = {
      architectures: ['LlamaForCausalLM'],
      vocab_size: vocabSize,
      hidden_size: hiddenSize,
      intermediate_size: 16,
      num_hidden_layers: 1,
      num_attention_heads: 1,
      hidden_act: 'silu',
      max_position_embeddings: T,
      tie_word_embeddings: true,
    }
    const folder = join(scratch, 'long')
    await mkdir(folder)
    await writeFile(join(folder, 'config.json'), JSON.stringify(config))
    const sources = modelWeights(readModelConfig(config)).map(({ name, shape }) => ({
      name,
      shape,
      dtype: 'F32' as const,
      read: () => Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => Math.sin(i + 1) / 4),
    }))
    await writeSafetensors(join(folder, 'model.safetensors'), sources)
    // With this much memory allowed, nothing but the choice of positions keeps the logits small.
    const client = await loadTrainingClient(folder, { threads: 1, slots: 1, activationBytes: 2 ** 40 })
    const tokens = Int32Array.from({ length: T }, (_, t) => (t * 7919) % vocabSize)
    const weights = Float32Array.from({ length: T }, (_, t) => (t >= T - 16 ? 1 : 0))
    const before = process.resourceUsage().maxRSS
    const datum = { tokens, targets: tokens.map((id) => (id + 1) % vocabSize), weights }
    const { metrics, logprobs } = await client.forwardBackward([datum], { name: 'cross_entropy' })
    const grown = (process.resourceUsage().maxRSS - before) / 1024
    await client.dispose()
    expect(metrics['tokens']).toBe(16)
    expect(logprobs[0]!.findIndex((value) => value !== 0)).toBe(T - 16)
    // Attention over 2016 x 2016 takes 16 MB a block; the logits of all positions would take 252 MB a block.
    expect(grown).toBeLessThan(250)
  })

  it('check 60: is flat over 200 training steps', async () => {
    const client = await loadTrainingClient(fixture('qwen3'), OPTIONS)
    const prompt = Int32Array.of(1, 2, 3)
    const step = async (seed: number) => {
      const [sequence] = await (await client.sampler()).sample({ prompt, maxTokens: 8, seed, stop: [] })
      const all = Int32Array.from([...prompt, ...sequence!.tokens])
      await client.forwardBackward([{ tokens: all.slice(0, -1), targets: all.slice(1) }], { name: 'cross_entropy' })
      await client.optimStep({ learningRate: 1e-4 })
    }
    for (let i = 0; i < 20; i++) await step(i)
    const after20 = process.memoryUsage().rss
    for (let i = 20; i < 200; i++) await step(i)
    const grown = process.memoryUsage().rss - after20
    await client.dispose()
    expect(grown).toBeLessThan(60 * 2 ** 20)
  })
})
