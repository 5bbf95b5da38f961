import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { InvalidInputError } from '@selfplay/engine'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openAdapterFolder } from './adapter.js'
import { exportAdapterFolder, exportModelFolder, type ExportModelOptions, type ModelExport } from './export.js'
import { openModelFolder } from './folder.js'
import { openSafetensors } from './safetensors.js'

const fixture = (name: string) => join(import.meta.dirname, '../../../../fixtures/models', name)

let parent: string
beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), 'selfplay-'))
})
afterEach(() => rm(parent, { recursive: true, force: true }))

/** Exports a fixture again, with a tokenizer of non-ASCII text. */
async function exportAgain(family: string, options: ExportModelOptions = {}, overrides: Partial<ModelExport> = {}) {
  const source = await openModelFolder(fixture(family))
  await writeFile(join(parent, 'tokenizer.json'), '{"ä": "Ω🎲\r\n"}', 'utf8')
  const target = join(parent, 'out')
  await exportModelFolder(
    target,
    {
      config: source.configText,
      generationConfig: source.generationConfigText,
      tokenizerFiles: [join(parent, 'tokenizer.json'), { name: 'chat_template.jinja', contents: '{{ "ä" }}' }],
      parameters: [...source.tensors.values()],
      read: (name) => source.read(name),
      ...overrides,
    },
    options,
  )
  return { source, target, opened: await openModelFolder(target) }
}

describe('model export', () => {
  it.each(['llama3', 'mistral', 'qwen2', 'qwen3'])('gives %s back to the bit', async (family) => {
    const { source, target, opened } = await exportAgain(family)
    expect(opened.configText).toBe(source.configText) // its dtype was float32 already
    expect(opened.generationConfigText).toBe(source.generationConfigText)
    expect([...opened.tensors.keys()]).toEqual([...source.tensors.keys()])
    for (const name of source.tensors.keys()) expect(await opened.read(name)).toEqual(await source.read(name))
    expect((await openSafetensors(join(target, 'model.safetensors'))).metadata).toEqual({ format: 'pt' })
    expect((await readdir(target)).sort()).toEqual([
      'chat_template.jinja',
      'config.json',
      'generation_config.json',
      'manifest.json',
      'model.safetensors',
      'tokenizer.json',
    ])
  })

  it('check 58: text files keep their bytes, whatever the code page', async () => {
    const { target } = await exportAgain('qwen2')
    expect(await readFile(join(target, 'tokenizer.json'))).toEqual(Buffer.from('{"ä": "Ω🎲\r\n"}', 'utf8'))
    expect(await readFile(join(target, 'chat_template.jinja'))).toEqual(Buffer.from('{{ "ä" }}', 'utf8'))
  })

  it('writes float16 and says so in the config, every other byte of it untouched', async () => {
    const { source, opened } = await exportAgain('qwen2', { dtype: 'float16' })
    expect(opened.configText).toBe(source.configText.replace('"dtype": "float32"', '"dtype": "float16"'))
    expect(opened.configText).toContain('1000000.0')
    for (const [name, entry] of opened.tensors) {
      expect(entry.dtype).toBe('F16')
      const [halved, exact] = [await opened.read(name), await source.read(name)]
      expect(halved.every((value, i) => Math.abs(value - exact[i]!) <= Math.abs(exact[i]!) * 2 ** -11 + 2 ** -25)).toBe(
        true,
      )
    }
  })

  it('sets the dtype of a config that has none, and of the older spelling', async () => {
    const write = async (config: ModelExport['config']) =>
      (await exportAgain('qwen2', {}, { config })).opened.configText
    expect(await write('{"a": 1.0}')).toBe('{\n  "dtype": "float32","a": 1.0}')
    expect(JSON.parse(await write('{}'))).toEqual({ dtype: 'float32' })
    const old = JSON.parse(await write({ torch_dtype: 'bfloat16', nested: { dtype: 'int8' } })) as object
    expect(old).toEqual({ dtype: 'float32', torch_dtype: 'float32', nested: { dtype: 'int8' } })
    await expect(write('{"dtype": {}}')).rejects.toThrow(InvalidInputError)
  })

  it('splits large weights into shards with an index', async () => {
    const { source, target, opened } = await exportAgain('qwen2', { maxShardBytes: 40_000 })
    const shards = (await readdir(target)).filter((name) => name.startsWith('model-')).sort()
    expect(shards.length).toBeGreaterThan(2)
    expect(shards[0]).toBe(`model-00001-of-0000${shards.length}.safetensors`)
    for (const shard of shards) {
      const { tensors } = await openSafetensors(join(target, shard))
      const bytes = [...tensors.values()].reduce((sum, { length }) => sum + length, 0)
      expect(bytes <= 40_000 || tensors.size === 1).toBe(true)
    }
    const index = JSON.parse(await readFile(join(target, 'model.safetensors.index.json'), 'utf8')) as {
      metadata: object
    }
    expect(index.metadata).toEqual({
      total_size: [...source.tensors.values()].reduce((sum, { length }) => sum + length, 0),
    })
    for (const name of source.tensors.keys()) expect(await opened.read(name)).toEqual(await source.read(name))
  })

  it('is refused later when a file was changed', async () => {
    const { target } = await exportAgain('qwen2')
    const path = join(target, 'model.safetensors')
    const bytes = await readFile(path)
    bytes[bytes.length - 1]! ^= 1
    await writeFile(path, bytes)
    await expect(openModelFolder(target)).rejects.toThrow(
      /model\.safetensors: expected SHA-256 .*delete manifest\.json if the change was meant/,
    )
    expect((await openModelFolder(target, { verify: 'sizes' })).config.model_type).toBe('qwen2')
  })

  it('leaves nothing when a tensor fails, a name is no tokenizer file, or the call is aborted', async () => {
    await expect(exportAgain('qwen2', {}, { read: () => new Float32Array(1) })).rejects.toThrow(
      /expected \d+ elements, got 1/,
    )
    await expect(exportAgain('qwen2', {}, { tokenizerFiles: [{ name: '../x', contents: '' }] })).rejects.toThrow(
      /a tokenizer file such as/,
    )
    await expect(exportAgain('qwen2', { maxShardBytes: 0 })).rejects.toThrow(InvalidInputError)
    const controller = new AbortController()
    const { tensors } = await openModelFolder(fixture('qwen2'))
    const read = (name: string) => {
      controller.abort(new Error('enough'))
      return new Float32Array(tensors.get(name)!.length / 4)
    }
    await expect(exportAgain('qwen2', { signal: controller.signal }, { read })).rejects.toThrow('enough')
    expect(await readdir(parent)).toEqual(['tokenizer.json'])
  })
})

describe('adapter export', () => {
  it('gives a PEFT adapter back to the bit', async () => {
    const source = await openAdapterFolder(fixture('qwen3/lora'))
    const modules = [...source.pairs].map(([name, { a, b }]) => ({
      name,
      inFeatures: a.shape[1]!,
      outFeatures: b.shape[0]!,
    }))
    await exportAdapterFolder(join(parent, 'out'), {
      rank: source.rank,
      alpha: source.alpha,
      targetModules: source.targetModules as string[],
      baseModel: 'org/name',
      modules,
      read: (module, side) => source.read(`base_model.model.${module}.lora_${side}.weight`),
      tokenizerFiles: [{ name: 'tokenizer.json', contents: '{}' }],
    })
    const opened = await openAdapterFolder(join(parent, 'out'))
    expect(opened).toMatchObject({
      rank: 4,
      alpha: 8,
      scaling: 2,
      baseModel: 'org/name',
      targetModules: source.targetModules,
    })
    expect(opened.config.task_type).toBe('CAUSAL_LM')
    expect([...opened.tensors.keys()].sort()).toEqual([...source.tensors.keys()].sort())
    for (const name of source.tensors.keys()) expect(await opened.read(name)).toEqual(await source.read(name))
  })
})
