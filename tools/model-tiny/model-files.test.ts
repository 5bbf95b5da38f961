import { mkdtemp, readFile, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { modelInfo } from '../../packages/model-tiny/src/index.js'
import { trainBpe } from './bpe.js'
import { countParameters, writeInitialModel } from './model-files.js'
import { recipe } from './recipe.js'

const bpe = trainBpe(
  new Map([
    ['hello', 3],
    ['help', 2],
  ]),
  260,
)
const shape = { ...recipe.shape, layers: 2 }
const folders: string[] = []
afterAll(() => Promise.all(folders.map((made) => rm(made, { recursive: true, force: true }))))
const write = async (seed: number): Promise<string> => {
  const folder = await mkdtemp(join(tmpdir(), 'selfplay-model-'))
  folders.push(folder)
  await writeInitialModel(folder, shape, bpe, seed)
  return folder
}

interface Header {
  readonly [name: string]: { readonly dtype: string; readonly shape: number[]; readonly data_offsets: [number, number] }
}

async function tensors(folder: string): Promise<{ header: Header; value: (name: string) => Float32Array }> {
  const bytes = await readFile(join(folder, 'model.safetensors'))
  const length = Number(bytes.readBigUInt64LE(0))
  const { __metadata__: _, ...header } = JSON.parse(bytes.toString('utf8', 8, 8 + length)) as Header
  const value = (name: string): Float32Array => {
    const [begin, end] = header[name]!.data_offsets
    return new Float32Array(Uint8Array.from(bytes.subarray(8 + length + begin, 8 + length + end)).buffer)
  }
  return { header, value }
}

describe('writeInitialModel', () => {
  it('writes a whole folder, equal for equal seeds', async () => {
    const [one, two, three] = await Promise.all([write(1), write(1), write(2)])
    expect((await readdir(one)).toSorted()).toEqual([
      'config.json',
      'generation_config.json',
      'manifest.json',
      'model.safetensors',
      'tokenizer.json',
      'tokenizer_config.json',
    ])
    const read = (folder: string) => readFile(join(folder, 'model.safetensors'))
    expect((await read(one)).equals(await read(two))).toBe(true)
    expect((await read(one)).equals(await read(three))).toBe(false)
  })

  it('draws projections with the spread of the recipe, smaller ones back into the residual stream', async () => {
    const { header, value } = await tensors(await write(1))
    const spread = (name: string): number => Math.hypot(...value(name)) / Math.sqrt(value(name).length)
    expect(spread('model.layers.0.mlp.up_proj.weight')).toBeCloseTo(shape.initStd, 3)
    expect(spread('model.layers.1.mlp.down_proj.weight')).toBeCloseTo(shape.initStd / 2, 3)
    expect(value('model.norm.weight').every((each) => each === 1)).toBe(true)
    const total = Object.values(header).reduce((sum, tensor) => sum + tensor.shape.reduce((a, b) => a * b, 1), 0)
    expect(total).toBe(countParameters(shape, 263))
  })
})

describe('the bundled recipe', () => {
  it('is what the package says, and below 4 MB in float16', () => {
    const parameters = countParameters(recipe.shape, recipe.vocabSize)
    expect(modelInfo.parameters).toBe(parameters)
    expect(modelInfo.vocabSize).toBe(recipe.vocabSize)
    expect(modelInfo.contextLength).toBe(recipe.shape.contextLength)
    expect(2 * parameters).toBeLessThan(4e6)
  })
})
