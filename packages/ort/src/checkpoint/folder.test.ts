import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CheckpointError } from '@selfplay/engine'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openAdapterFolder } from './adapter.js'
import { openModelFolder } from './folder.js'
import { openSafetensors } from './safetensors.js'
import { writeSafetensors } from './safetensors-writer.js'

const fixture = (name: string) => join(import.meta.dirname, '../../../../fixtures/models', name)
const FAMILIES = ['llama3', 'mistral', 'qwen2', 'qwen3']

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'selfplay-'))
})
afterEach(() => rm(folder, { recursive: true, force: true }))

const put = (name: string, contents: string | object) =>
  writeFile(join(folder, name), typeof contents === 'string' ? contents : JSON.stringify(contents), 'utf8')

const shard = (file: string, ...names: string[]) =>
  writeSafetensors(
    join(folder, file),
    names.map((name) => ({ name, shape: [1], dtype: 'F16', read: () => Float32Array.of(name.length) })),
  )

describe('model folders', () => {
  it.each(FAMILIES)('opens %s', async (family) => {
    const model = await openModelFolder(fixture(family))
    expect(model.config.vocab_size).toBe(131)
    expect(model.generationConfig).toMatchObject({ eos_token_id: 2 })
    expect(model.tokenizerFiles).toEqual([])
    const name = 'model.embed_tokens.weight'
    const values = await model.read(name)
    const { path, offset, length } = model.file(name)!
    expect(Buffer.from(values.buffer)).toEqual((await readFile(path)).subarray(offset, offset + length))
    await expect(model.read('nothing')).rejects.toThrow(/expected a tensor "nothing", got \d+ others/)
  })

  it('opens shards through their index, and finds the tokenizer', async () => {
    await put('config.json', '\ufeff{"a": 1}')
    for (const name of [
      'tokenizer.json',
      'tokenizer_config.json',
      'merges.txt',
      'chat_template.jinja',
      'README.md',
      'evil.py',
    ])
      await put(name, '{}')
    await shard('one.safetensors', 'a', 'unlisted')
    await shard('two.safetensors', 'bb')
    await put('model.safetensors.index.json', {
      metadata: {},
      weight_map: { a: 'one.safetensors', bb: 'two.safetensors' },
    })
    const model = await openModelFolder(folder)
    expect([...model.tensors.keys()]).toEqual(['a', 'bb'])
    expect(await model.read('bb')).toEqual(Float32Array.of(2))
    expect(model.file('bb')).toBeUndefined() // float16 cannot be mapped as it is
    expect(model.tokenizerFiles.map((path) => path.slice(folder.length + 1))).toEqual([
      'chat_template.jinja',
      'merges.txt',
      'tokenizer.json',
      'tokenizer_config.json',
    ])
    expect(model.generationConfig).toBeUndefined()
  })

  it.each<[string, unknown, RegExp]>([
    ['a path upwards', '../secret.safetensors', /file names inside its own folder, got "\.\.\/secret\.safetensors"/],
    ['an absolute path', '/etc/x.safetensors', /file names inside its own folder/],
    ['a drive letter', 'C:x.safetensors', /file names inside its own folder/],
    ['a backslash', 'a\\..\\..\\x.safetensors', /file names inside its own folder/],
    ['a pickle', 'weights.bin', /shards that are \.safetensors files, got "weights\.bin"/],
    ['a number', 3, /expected a file name for "a", got "3"/],
    [
      'a shard that is missing',
      'none.safetensors',
      /expected the shard "none\.safetensors" that the index names, got no such file/,
    ],
    ['a shard without the tensor', 'two.safetensors', /two\.safetensors: expected a tensor "a", got 1 others/],
  ])('refuses an index with %s', async (_, file, message) => {
    await put('config.json', {})
    await shard('two.safetensors', 'b')
    await put('model.safetensors.index.json', { weight_map: { a: file } })
    const error: unknown = await openModelFolder(folder).catch((caught: unknown) => caught)
    expect(error).toBeInstanceOf(CheckpointError)
    expect((error as Error).message).toMatch(message)
  })

  it.each<[string, Record<string, string | object>, RegExp]>([
    ['an empty folder', {}, /expected a model folder with config\.json, got an empty folder\. Give a folder with/],
    ['no config', { 'model.safetensors': 'x' }, /with config\.json, got "model\.safetensors"/],
    [
      'a config that is no JSON',
      { 'config.json': '{', 'model.safetensors': 'x' },
      /config\.json: expected a JSON object/,
    ],
    ['no weights', { 'config.json': {} }, /expected model\.safetensors or model\.safetensors\.index\.json/],
    ['pickled weights only', { 'config.json': {}, 'pytorch_model.bin': 'x' }, /Pickled weights are never read/],
    [
      'an index without a map',
      { 'config.json': {}, 'model.safetensors.index.json': {} },
      /expected an object "weight_map", got "none"/,
    ],
    ['an empty map', { 'config.json': {}, 'model.safetensors.index.json': { weight_map: {} } }, /at least one tensor/],
    ['a truncated weights file', { 'config.json': {}, 'model.safetensors': 'x' }, /at least 8 bytes, got 1 bytes/],
  ])('refuses %s', async (_, files, message) => {
    for (const [name, contents] of Object.entries(files)) await put(name, contents)
    const error: unknown = await openModelFolder(folder).catch((caught: unknown) => caught)
    expect(error).toBeInstanceOf(CheckpointError)
    expect((error as Error).message).toMatch(message)
  })

  it('says what to do about a missing folder and about a file', async () => {
    await expect(openModelFolder(join(folder, 'none'))).rejects.toThrow(
      /none: expected a folder, got nothing of that name\. Give a folder with config/,
    )
    await put('file', '')
    await expect(openModelFolder(join(folder, 'file'))).rejects.toThrow(/expected a folder, got a file/)
  })

  it('is not confused by the manifest of another program', async () => {
    await cp(fixture('qwen2'), folder, { recursive: true })
    await put('manifest.json', { name: 'my app' })
    expect((await openModelFolder(folder)).config.model_type).toBe('qwen2')
  })

  it('stops when aborted', async () => {
    const signal = AbortSignal.abort(new Error('enough'))
    await expect(openModelFolder(fixture('qwen2'), { signal })).rejects.toThrow('enough')
  })
})

describe('adapter folders', () => {
  it.each(FAMILIES)('opens the adapter of %s', async (family) => {
    const adapter = await openAdapterFolder(fixture(`${family}/lora`))
    expect(adapter).toMatchObject({ rank: 4, alpha: 8, scaling: 2, baseModel: undefined })
    expect(adapter.targetModules).toContain('q_proj')
    expect(adapter.pairs.size).toBe(14)
    const { a, b } = adapter.pairs.get('model.layers.0.self_attn.q_proj')!
    expect([a.shape[0], b.shape[1]]).toEqual([4, 4])
    expect((await adapter.read(a.name)).length).toBe(4 * a.shape[1]!)
  })

  const open = async (change: object) => {
    const config = JSON.parse(await readFile(fixture('qwen2/lora/adapter_config.json'), 'utf8')) as object
    await mkdir(join(folder, 'lora'))
    await put('lora/adapter_config.json', { ...config, ...change })
    await cp(fixture('qwen2/lora/adapter_model.safetensors'), join(folder, 'lora/adapter_model.safetensors'))
    return openAdapterFolder(join(folder, 'lora'))
  }

  it.each<[object, RegExp]>([
    [{ peft_type: 'IA3' }, /"peft_type": "LORA", the only kind that is supported, got "\\"IA3\\""/],
    [{ use_dora: true }, /plain LoRA, without "use_dora", got "true"/],
    [{ bias: 'all' }, /plain LoRA, without "bias"/],
    [{ modules_to_save: ['lm_head'] }, /plain LoRA, without "modules_to_save"/],
    [{ rank_pattern: { q_proj: 8 } }, /without "rank_pattern"/],
    [{ r: 0 }, /"r", a whole number >= 1, got "0"/],
    [{ r: 8 }, /of shape \[8, in\], got \[4, \d+\]/],
    [{ lora_alpha: 'x' }, /"lora_alpha", a number/],
    [{ target_modules: [1] }, /"target_modules", a list of names/],
  ])('refuses %j', async (change, message) => {
    const error: unknown = await open(change).catch((caught: unknown) => caught)
    expect(error).toBeInstanceOf(CheckpointError)
    expect((error as Error).message).toMatch(message)
  })

  it('knows rank-stabilised scaling', async () => {
    expect((await open({ use_rslora: true })).scaling).toBe(4)
  })

  it('refuses half a pair, foreign names, and missing files', async () => {
    await put('adapter_config.json', await readFile(fixture('qwen2/lora/adapter_config.json'), 'utf8'))
    await expect(openAdapterFolder(folder)).rejects.toThrow(/with adapter_model\.safetensors, got no such file/)
    const write = (name: string, shape: number[]) =>
      writeSafetensors(join(folder, 'adapter_model.safetensors'), [
        { name, shape, dtype: 'F32', read: () => new Float32Array(shape[0]! * shape[1]!) },
      ])
    await write('base_model.model.x.lora_A.weight', [4, 2])
    await expect(openAdapterFolder(folder)).rejects.toThrow(/expected lora_A and lora_B of "x", got only lora_A/)
    await write('x.lora_A', [4, 2])
    await expect(openAdapterFolder(folder)).rejects.toThrow(
      /expected tensors named base_model\.model\.<module>\.lora_A\.weight, got "x\.lora_A"/,
    )
    expect((await openSafetensors(join(folder, 'adapter_model.safetensors'))).tensors.size).toBe(1)
  })
})
