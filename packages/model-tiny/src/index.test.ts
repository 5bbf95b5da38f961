import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { Tokenizer } from '@huggingface/tokenizers'
import { describe, expect, it } from 'vitest'
import { modelInfo, modelPath } from './index.js'

const json = async (name: string): Promise<Record<string, unknown>> =>
  JSON.parse(await readFile(join(modelPath, name), 'utf8')) as Record<string, unknown>

describe('the bundled model', () => {
  it('is a Hugging Face folder of at most 4 MB', async () => {
    const names = await readdir(modelPath)
    for (const name of [
      'config.json',
      'generation_config.json',
      'model.safetensors',
      'tokenizer.json',
      'tokenizer_config.json',
    ]) {
      expect(names).toContain(name)
    }
    const sizes = await Promise.all(names.map(async (name) => (await stat(join(modelPath, name))).size))
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(4e6)
  })

  it('is what modelInfo says', async () => {
    const config = await json('config.json')
    expect(config.model_type).toBe(modelInfo.architecture)
    expect(config.vocab_size).toBe(modelInfo.vocabSize)
    expect(config.max_position_embeddings).toBe(modelInfo.contextLength)
    const bytes = await readFile(join(modelPath, 'model.safetensors'))
    const length = Number(bytes.readBigUInt64LE(0))
    const { __metadata__: _, ...tensors } = JSON.parse(bytes.toString('utf8', 8, 8 + length)) as Record<
      string,
      { readonly dtype?: string; readonly shape: readonly number[] }
    >
    const counts = Object.values(tensors).map(({ shape }) => shape.reduce((product, size) => product * size, 1))
    expect(counts.reduce((sum, count) => sum + count, 0)).toBe(modelInfo.parameters)
    expect(new Set(Object.values(tensors).map(({ dtype }) => dtype))).toEqual(new Set(['F16']))
  })

  it('ends generations with the two end tokens', async () => {
    const tokenizer = new Tokenizer(await json('tokenizer.json'), await json('tokenizer_config.json'))
    const ends = [modelInfo.endOfText, modelInfo.endOfTurn].map((token) => tokenizer.token_to_id(token))
    expect((await json('generation_config.json')).eos_token_id).toEqual(ends)
    const ids = tokenizer.encode(`Describe a city in the clouds: 🌆${modelInfo.endOfText}`).ids
    expect(ids.at(-1)).toBe(ends[0])
    expect(tokenizer.decode(ids, { skip_special_tokens: true, clean_up_tokenization_spaces: false })).toBe(
      'Describe a city in the clouds: 🌆',
    )
  })
})
