import * as core from '@selfplay/ort'
import { describe, expect, it } from 'vitest'
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

describe('loading a model by its name', () => {
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
