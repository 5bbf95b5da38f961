import { checkOptimStep } from '@selfplay/engine'
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
