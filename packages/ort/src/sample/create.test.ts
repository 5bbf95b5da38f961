import { InvalidInputError } from '@selfplay/engine'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openSafetensors, readTensor } from '../checkpoint/index.js'
import { FIXTURES, loadFixture } from '../models/testing/fixtures.js'
import type { Fixture } from '../models/testing/fixtures.js'
import { createRuntime } from '../runtime/index.js'
import type { Runtime, Tensor } from '../runtime/index.js'
import { createEngine } from './create.js'
import type { CreateEngineOptions } from './create.js'

let runtime: Runtime
const fixtures = new Map<string, Fixture>()
beforeAll(async () => {
  runtime = await createRuntime({ threads: 2 })
  for (const name of FIXTURES) fixtures.set(name, await loadFixture(name))
})
afterAll(() => runtime.dispose())

const tensorsOf = (fixture: Fixture) =>
  new Map(
    [...fixture.weights].map(([name, data]) => [
      name,
      runtime.tensor('float32', data.slice(), fixture.folder.tensors.get(name)!.shape),
    ]),
  )

function setUp(name: string, options: Partial<CreateEngineOptions> = {}) {
  const fixture = fixtures.get(name)!
  const weights = tensorsOf(fixture)
  return { fixture, weights, engine: createEngine({ runtime, config: fixture.config, weights, slots: 3, ...options }) }
}
const ids = (list: readonly number[]) => Int32Array.from(list)
const worst = (a: ArrayLike<number>, b: ArrayLike<number>) =>
  Math.max(...Array.from(a, (value, i) => Math.abs(value - b[i]!)))

describe.each(FIXTURES)('%s', (name) => {
  it.each(['none', 'packed'] as const)('continues greedily as expected, weights %s', async (packing) => {
    const { fixture, engine } = setUp(name, { packing })
    const { greedy_prompt, greedy_tokens, greedy_logprobs } = fixture.numbers
    const [sequence] = await engine.sample({ prompt: ids(greedy_prompt), maxTokens: 20, temperature: 0 })
    expect([...sequence!.tokens]).toEqual(greedy_tokens)
    expect(worst(sequence!.logprobs, greedy_logprobs)).toBeLessThan(1e-4)
    expect([...new Set(sequence!.keptMass)]).toEqual([1])
    await engine.dispose()
  })
})
