import { checkOptimStep, InvalidInputError, NonFiniteError, type OptimStepOptions } from '@selfplay/engine'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createRuntime, type Runtime } from '../runtime/index.js'
import { ParameterMath } from './adamw.js'
import { companions, type Companions, type Parameter } from './parameters.js'

let runtime: Runtime
let math: ParameterMath
beforeAll(async () => {
  runtime = await createRuntime({ threads: 1 })
  math = await ParameterMath.create(runtime)
})
afterAll(() => runtime.dispose())

const SHAPES = [[3], [300, 1000], [7, 5], [1], [40_000]]
const names = SHAPES.map((_, i) => `p${i}`)
const specs = SHAPES.map((shape, i) => ({ name: names[i]!, shape }))

/** Tensors of the shapes with numbers that depend on the seed, in one block or each in memory of its own. */
function tensors(seed: number, inBlock: boolean): Companions {
  const made = inBlock
    ? companions(runtime, specs)
    : new Map(specs.map(({ name, shape }) => [name, runtime.allocate('float32', shape)]))
  let state = seed
  for (const { data } of made.values()) {
    for (let i = 0; i < data!.length; i++) {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0
      data![i] = Math.abs(state) / 2 ** 31
    }
  }
  return made
}

const numbers = (all: Companions) => [...all.values()].map(({ data }) => data)

async function steps(inBlock: boolean) {
  const [weights, gradients, m, v] = [1, 2, 3, 4].map((seed) => tensors(seed, inBlock)) as [Companions, ...Companions[]]
  const parameters: Parameter[] = specs.map((spec) => ({ ...spec, weight: weights.get(spec.name)! }))
  const state = { gradients: gradients!, m: m!, v: v! }
  const norms: number[] = []
  const options = checkOptimStep({ learningRate: 0.01, maxGradNorm: 1e4 })
  for (const t of [1, 2]) norms.push(await math.step(parameters, state, t, options))
  return { norms, numbers: [weights, m!, v!].map(numbers) }
}

describe('a step', () => {
  it('whose second moment would overflow is refused, unless the gradient is scaled down', async () => {
    const weights = tensors(1, true)
    const [gradients, m, v] = [tensors(2, true), companions(runtime, specs), companions(runtime, specs)]
    gradients.get('p2')!.data![3] = 1e20
    const parameters: Parameter[] = specs.map((spec) => ({ ...spec, weight: weights.get(spec.name)! }))
    const step = (maxGradNorm: number | null) =>
      math.step(parameters, { gradients, m, v }, 1, checkOptimStep({ learningRate: 0.01, maxGradNorm }))
    const before = numbers(weights).map((array) => array!.slice())
    await expect(step(null)).rejects.toThrow(/norm is 1\d+ at optimiser step 1, whose square overflows float32/)
    await expect(step(1e30)).rejects.toThrow(NonFiniteError)
    expect(numbers(weights)).toEqual(before)
    await step(1)
    for (const all of [weights, m, v]) expect(numbers(all).every((array) => array!.every(Number.isFinite))).toBe(true)
  })

  it.each<[string, Partial<OptimStepOptions>, RegExp]>([
    [
      'a learning rate beyond float32',
      { learningRate: 1e300 },
      /learningRate: learningRate \/ \(1 - beta1\) must fit into float32, at most 3\.4e38, got 1e\+300/,
    ],
    [
      'one that the correction of the first moment makes so',
      { learningRate: 1e38 },
      /must fit into float32, at most 3\.4e38, got 1e\+38/,
    ],
    [
      'a decay of more than the whole',
      { weightDecay: 1e300 },
      /weightDecay: .*must be at most 1, got 0\.01 \* 1e\+300/,
    ],
    ['an epsilon that is 0 in float32', { epsilon: 1e-60 }, /epsilon/],
    ['an epsilon beyond float32', { epsilon: 1e60 }, /epsilon/],
  ])('refuses %s', (_, options, message) => {
    expect(() => checkOptimStep({ learningRate: 0.01, ...options })).toThrow(InvalidInputError)
    expect(() => checkOptimStep({ learningRate: 0.01, ...options })).toThrow(message)
  })

  it('takes the largest options that it can be taken with', async () => {
    const [weights, gradients] = [tensors(1, true), tensors(2, true)]
    const [m, v] = [companions(runtime, specs), companions(runtime, specs)]
    gradients.get('p1')!.data!.fill(0)
    const parameters: Parameter[] = specs.map((spec) => ({ ...spec, weight: weights.get(spec.name)! }))
    const options = checkOptimStep({ learningRate: 3.4e37, weightDecay: 1 / 3.4e37, epsilon: 2 ** -126 })
    await math.step(parameters, { gradients, m, v }, 1, options)
    expect(numbers(weights).every((array) => array!.every(Number.isFinite))).toBe(true)
  })
})

describe('tensors in one block', () => {
  it('lie one behind the other', () => {
    const [first, ...others] = numbers(companions(runtime, specs)) as [Float32Array, ...Float32Array[]]
    let end = first.byteLength
    for (const { buffer, byteOffset, byteLength } of others) {
      expect(buffer).toBe(first.buffer)
      expect(byteOffset).toBe(end)
      end += byteLength
    }
  })

  it('are stepped like tensors apart', async () => {
    const [block, apart] = [await steps(true), await steps(false)]
    expect(block.numbers).toEqual(apart.numbers)
    block.norms.forEach((norm, i) => expect(norm).toBeCloseTo(apart.norms[i]!, 8))
  })

  it('are added like tensors apart', async () => {
    const [block, apart] = [tensors(5, true), tensors(5, false)]
    await math.add(block, tensors(6, true))
    await math.add(apart, tensors(6, true))
    expect(numbers(block)).toEqual(numbers(apart))
  })

  it('have a norm that takes numbers which overflow float32 when squared', async () => {
    const large = tensors(1, true)
    for (const { data } of large.values()) data!.fill(1e30)
    const count = SHAPES.reduce((sum, shape) => sum + shape.reduce((a, b) => a * b, 1), 0)
    expect((await math.norm(large)) / (Math.fround(1e30) * Math.sqrt(count))).toBeCloseTo(1, 12)
  })
})
