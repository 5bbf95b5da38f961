import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { assistant, user } from '@selfplay/renderers'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { writeTinyModel } from '../tests/support/tiny-model.js'
import { loadAgents } from './agents.js'
import { trainSupervised } from './train-supervised.js'

let folder = ''
let model = ''
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'selfplay-train-supervised-'))
  model = await writeTinyModel()
})
afterAll(async () => {
  await rm(folder, { recursive: true, force: true })
  await rm(model, { recursive: true, force: true })
})

const rows = ['the moon', 'a city', 'a dragon', 'the clouds'].map((text) => [user('a story'), assistant(text)])
const settings = { dataset: rows, learningRate: 1e-2, batchSize: 2, epochs: 8, checkpointEvery: 0, onNotice: () => {} }

describe('trainSupervised', () => {
  it('goes from the name of a model to a folder with one that knows the answers better', async () => {
    const run = join(folder, 'named')
    const seen: number[] = []
    const onUpdate = ({ nll }: { nll: number }) => void seen.push(nll)
    const result = await trainSupervised({ ...settings, model, renderer: 'chatml', run, onUpdate })
    expect(result).toMatchObject({ steps: 16, model: join(run, 'model') })
    expect(seen.at(-1)).toBeLessThan(seen[0]! - 0.5)
    const weights = await Promise.all(
      [model, result.model!].map((directory) => readFile(join(directory, 'model.safetensors'))),
    )
    expect(weights[0]!.equals(weights[1]!)).toBe(false)
    const again = await trainSupervised({
      ...settings,
      model: result.model!,
      renderer: 'chatml',
      run: join(folder, 'further'),
      epochs: 1,
    })
    expect(again.metrics!['train_mean_nll']).toBeLessThan(seen[0]! - 0.5) // what was exported is what had been trained
  })

  it('trains a client in place, with its own renderer, and leaves it open', async () => {
    const [client] = await loadAgents(model, 1, { renderer: 'chatml' })
    const result = await trainSupervised({ ...settings, epochs: 1, model: client! })
    expect([result.model, client!.step]).toEqual([null, 2])
    await client!.dispose()
  })

  it('refuses what cannot work', async () => {
    await expect(trainSupervised({ ...settings, model, renderer: 'chatml' })).rejects.toThrow(/run: expected a folder/)
    const old = { ...settings, client: {}, run: folder }
    await expect(trainSupervised(old as never)).rejects.toThrow(/model: expected bundled:tiny/)
    const typo = { ...settings, model, renderer: 'chatml', run: join(folder, 'typo'), trainOnn: 'all_tokens' }
    await expect(trainSupervised(typo as never)).rejects.toThrow(/trainOnn.*trainOn/)
  })
})
