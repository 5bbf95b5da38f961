import { afterAll, beforeAll, expect, it } from 'vitest'
import { complete } from '../src/complete.js'
import { loadAgents, type LoadedAgent } from '../src/agents.js'

let plain: LoadedAgent
let chat: LoadedAgent
beforeAll(async () => {
  const options = { threads: 1, slots: 4 }
  ;[plain] = (await loadAgents('bundled:tiny', 1, options)) as [LoadedAgent]
  ;[chat] = (await loadAgents('bundled:tiny', 1, { ...options, renderer: 'chatml' })) as [LoadedAgent]
})
afterAll(() => Promise.all([plain.dispose(), chat.dispose()]))

it('answers plain text and messages, without the end token', async () => {
  const texts = await complete(plain, 'Describe a city in the clouds:', { numSamples: 3, seed: 1 })
  expect(texts).toHaveLength(3)
  const [reply] = await complete(chat, [{ role: 'user', content: 'Invent a creative name for a coffee shop.' }], {
    seed: 1,
  })
  for (const text of [...texts, reply!]) {
    expect(text.length).toBeGreaterThan(0)
    expect(text).not.toMatch(/<\|/)
  }
  expect(await complete(plain, 'Describe a city in the clouds:', { numSamples: 3, seed: 1 })).toEqual(texts)
})

it('samples from a snapshot when given one', async () => {
  const sampler = await plain.snapshot()
  const options = { seed: 4, maxTokens: 12 }
  expect(await complete(plain, 'A:', { ...options, sampler })).toEqual(await complete(plain, 'A:', options))
  await sampler.dispose()
})

it('says what messages need', async () => {
  await expect(complete(plain, [{ role: 'user', content: 'Hello' }])).rejects.toThrow(/load it with \{ renderer/)
})
