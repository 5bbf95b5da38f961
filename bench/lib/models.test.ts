import { openModelFolder } from '@selfplay/ort'
import { getTokenizer } from '@selfplay/renderers'
import { expect, it } from 'vitest'
import { HIDDEN_64, modelFolder, randomIds, SMALL_VOCABULARY } from './models.js'

it('makes a model folder once, with weights of the asked size and a tokenizer that fits', async () => {
  const path = await modelFolder(HIDDEN_64)
  expect(await modelFolder(HIDDEN_64)).toBe(path)
  const weights = await (await openModelFolder(path)).read('model.layers.1.mlp.down_proj.weight')
  const square = weights.reduce((sum, x) => sum + x * x, 0) / weights.length
  expect(Math.sqrt(square)).toBeGreaterThan(0.0195)
  expect(Math.sqrt(square)).toBeLessThan(0.0205)
  expect(Math.abs(weights.reduce((sum, x) => sum + x, 0) / weights.length)).toBeLessThan(0.001)
  const tokenizer = await getTokenizer(path)
  expect(tokenizer.vocabSize).toBeLessThanOrEqual(HIDDEN_64.vocabSize)
  expect(tokenizer.decode(tokenizer.encode('Describe a city in the clouds:'))).toBe('Describe a city in the clouds:')
})

it('makes other weights of another seed, with the same tokenizer', async () => {
  const folders = await Promise.all([1, 2].map((seed) => modelFolder({ ...SMALL_VOCABULARY, seed })))
  const weights = await Promise.all(
    folders.map(async (path) => (await openModelFolder(path)).read('model.embed_tokens.weight')),
  )
  const same = weights[0]!.reduce((count, weight, i) => count + Number(weight === weights[1]![i]), 0)
  expect(same).toBeLessThan(weights[0]!.length / 1000)
  const [first, second] = await Promise.all(folders.map((path) => getTokenizer(path)))
  expect(first!.eosTokenId).toBeLessThan(SMALL_VOCABULARY.vocabSize)
  expect(second!.encode('Invent a new type of fruit:')).toEqual(first!.encode('Invent a new type of fruit:'))
})

it('draws the same ids from the same seed', () => {
  expect(randomIds(5, 100, 3)).toEqual(randomIds(5, 100, 3))
  expect(randomIds(5, 100, 3)).not.toEqual(randomIds(5, 100, 4))
  expect(randomIds(1000, 10, 1).every((id) => id >= 0 && id < 10)).toBe(true)
})
