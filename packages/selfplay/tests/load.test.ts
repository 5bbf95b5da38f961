import * as core from '@selfplay/ort'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { modelPath } from '@selfplay/model-tiny'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import * as selfplay from '../src/index.js'

const { loadActorCritics, loadAgents, loadCritic, loadCritics, loadTrainingClient } = selfplay
const source = 'bundled:tiny'
const options = { threads: 1, contextLength: 64 }

/** Every way to load a model, as the policies or critics that it gives. */
const ways = {
  loadAgents: () => loadAgents(source, 2, { ...options, mode: 'adapters', renderer: 'chatml' }),
  loadTrainingClient: async () => [
    await loadTrainingClient(source, { ...options, training: { rank: 2 }, renderer: 'chatml' }),
  ],
  loadActorCritics: () => loadActorCritics(source, 1, { ...options, renderer: 'chatml' }),
  loadCritic: async () => [await loadCritic(source, options)],
  loadCritics: () => loadCritics(source, 2, { ...options, training: { rank: 2 } }),
}

describe('loading what a run has left', () => {
  let run = ''
  beforeAll(async () => {
    run = await mkdtemp(join(tmpdir(), 'selfplay-load-'))
    await mkdir(join(run, 'checkpoints', 'step-00000004', 'agent_0'), { recursive: true })
    for (const name of ['agent_0', 'agent_1']) await symlink(modelPath, join(run, name), 'dir')
  })
  afterAll(() => rm(run, { recursive: true, force: true }))

  it('takes a list of models, one per agent', async () => {
    const pair = await loadAgents([join(run, 'agent_0'), source], 2, options)
    expect(pair.map(({ info }) => info.source)).toEqual([join(run, 'agent_0'), modelPath])
    await Promise.all(pair.map((agent) => agent.dispose()))
    await expect(loadAgents([source], 2, options)).rejects.toThrow(/one per agent.*got 1 for 2 agents/)
    await expect(loadAgents(5 as never, 2, options)).rejects.toThrow(/expected a model, or a list of models.*number/)
  })

  it('names the models of a folder that holds several', async () => {
    await expect(loadAgents(run, 2)).rejects.toThrow(
      /holds several models; its models are agent_0, agent_1: load .*agent_0.*loadAgents\(\['.*agent_0', '.*agent_1'\], 2\)/,
    )
    await writeFile(join(run, 'config.json'), '{"trainer": "MAGRPO"}')
    await expect(loadAgents(run, 2)).rejects.toThrow(/is a run; its models are agent_0, agent_1/)
  })

  it('names the saved model instead of a checkpoint', async () => {
    const checkpoint = join(run, 'checkpoints', 'step-00000004')
    for (const path of [checkpoint, join(checkpoint, 'agent_0')])
      await expect(loadTrainingClient(path)).rejects.toThrow(`load ${join(run, 'agent_0')}, the model that the run has`)
  })
})

describe('loading a model by its name', () => {
  it('refuses an option that there is not, with the nearest', async () => {
    await expect(loadAgents(source, 1, { rendrer: 'chatml' } as object)).rejects.toThrow(
      'loadAgents has no option "rendrer": did you mean "renderer"?',
    )
    await expect(loadTrainingClient(source, { lora: {} } as object)).rejects.toThrow(/has no option "lora"/)
  })

  it.each(Object.entries(ways))('%s takes a bundled model and gives its tokenizer', async (name, load) => {
    const clients = await load()
    const [first] = clients
    expect(first!.tokenizer.encode('A dragon').length).toBeGreaterThan(0)
    for (const client of clients) {
      expect(client.tokenizer).toBe(first!.tokenizer)
      expect(client.info.parameters.trained).toBeGreaterThan(0)
      expect('renderer' in client).toBe(!/^loadCritics?$/.test(name))
    }
    await Promise.all(clients.map((client) => client.dispose()))
  })

  it('gives critics that value what the tokenizer reads', async () => {
    const critics = await ways.loadCritics()
    const ids = Int32Array.from(critics[0]!.tokenizer.encode('A dragon'))
    for (const critic of critics) expect((await critic.values([ids])).every((value) => Math.abs(value) < 1)).toBe(true)
    await Promise.all(critics.map((critic) => critic.dispose()))
  })

  it('has its own of each way that the training core has', () => {
    const names = Object.keys(core).filter((name) => name.startsWith('load'))
    expect(names.sort()).toEqual(Object.keys(ways).sort())
    for (const name of names) expect(Reflect.get(selfplay, name)).not.toBe(Reflect.get(core, name))
  })
})
