import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { datasetOf, EnvFromMessageEnv, repeat, sampledTokens, user, type EnvGroupBuilder } from '@selfplay/env'
import type { Renderer } from '@selfplay/renderers'
import { pairwise } from '@selfplay/rewards'
import type { DatasetParts } from '@selfplay/trainer'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { writeTinyModel } from '../tests/support/tiny-model.js'
import { loadAgents } from './agents.js'
import { trainRL } from './train-rl.js'

let folder = ''
let model = ''
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'selfplay-train-rl-'))
  model = await writeTinyModel()
})
afterAll(async () => {
  await rm(folder, { recursive: true, force: true })
  await rm(model, { recursive: true, force: true })
})

const group = (renderer: Renderer): EnvGroupBuilder => ({
  makeEnvs: () =>
    repeat(
      3,
      () =>
        new EnvFromMessageEnv({
          renderer,
          maxGenerationTokens: 4,
          messageEnv: {
            initialObservation: () => [user('hi')],
            step: () => ({ reward: 0, episodeDone: true, nextMessages: [] }),
          },
        }),
    ),
  computeGroupRewards: pairwise((a, b) => Math.sign((a.transitions[0]!.action.tokens[0] ?? 0) - sampledTokens(b))),
})
const dataset = ({ renderer }: DatasetParts) => datasetOf([0, 1], () => group(renderer), { batchSize: 1 })
const settings = { dataset, learningRate: 1e-3, seed: 1, reportEvery: 0, checkpointEvery: 0, onNotice: () => {} }

describe('trainRL', () => {
  it('goes from the name of a model to a folder with the trained one', async () => {
    const run = join(folder, 'named')
    const result = await trainRL({ ...settings, model, renderer: 'chatml', run })
    expect(result).toMatchObject({ steps: 2, model: join(run, 'model') })
    const [start, trained] = await Promise.all(
      [model, result.model!].map((directory) => readFile(join(directory, 'model.safetensors'))),
    )
    expect(start!.equals(trained!)).toBe(false)
    const [again] = await loadAgents(result.model!, 1)
    expect(again!.tokenizer.decode(again!.tokenizer.encode('the moon'))).toBe('the moon')
    await again!.dispose()
  })

  it('goes on with a run that was stopped, to the very same metrics and weights', async () => {
    const named = { ...settings, steps: 4, model, renderer: 'chatml', load: { threads: 1 } }
    const outcome = async (run: string) => {
      const lines = (await readFile(join(run, 'metrics.jsonl'), 'utf8')).trim().split('\n')
      const exact = lines.map((line) =>
        Object.entries(JSON.parse(line) as Record<string, number>).filter(([name]) => !/^(time|perf)\//.test(name)),
      )
      return { exact, weights: await readFile(join(run, 'model', 'model.safetensors'), 'base64') }
    }
    const whole = join(folder, 'whole')
    await trainRL({ ...named, run: whole })
    const directory = join(folder, 'stopped')
    const stop = new AbortController()
    const onUpdate = ({ step }: { step: number }) => step === 2 && stop.abort(new Error('enough'))
    await expect(trainRL({ ...named, run: directory, onUpdate }, { signal: stop.signal })).rejects.toThrow('enough')
    const steps: number[] = []
    const resumed = {
      ...named,
      run: { directory, resume: true },
      onUpdate: (update: { step: number }) => steps.push(update.step),
    }
    await trainRL(resumed)
    expect(steps).toEqual([3, 4])
    const want = await outcome(whole)
    expect(want.exact).toHaveLength(4)
    expect(await outcome(directory)).toEqual(want)
  })

  it('trains a client in place, with its own renderer, and leaves it open', async () => {
    const [client] = await loadAgents(model, 1, { renderer: 'chatml' })
    const result = await trainRL({ ...settings, model: client! })
    expect([result.model, client!.step]).toEqual([null, 2])
    await expect(trainRL({ ...settings, model: client!, load: { threads: 1 } })).rejects.toMatchObject({
      code: 'config',
    })
    await client!.dispose()
  })

  it('trains adapters where load says so', async () => {
    const run = join(folder, 'adapters')
    const load = { mode: 'adapters', lora: { rank: 2 } } as const
    const { model: trained } = await trainRL({ ...settings, steps: 1, model, renderer: 'chatml', run, load })
    const manifest = await readFile(join(run, 'config.json'), 'utf8')
    expect(manifest).toContain('"loraRank": 2')
    expect(trained).toBe(join(run, 'model'))
  })

  it('refuses what cannot work', async () => {
    await expect(trainRL({ ...settings, model, renderer: 'chatml' })).rejects.toThrow(/run: expected a folder/)
    await expect(trainRL({ ...settings, run: folder } as never)).rejects.toThrow(/model: expected bundled:tiny/)
    const typo = { ...settings, model, renderer: 'chatml', run: join(folder, 'typo'), learnRate: 1 }
    await expect(trainRL(typo as never)).rejects.toThrow(/learnRate/)
  })
})
