/** Gradients against differences, and single against double precision. */
import { expect } from 'vitest'
import type { Value } from '../../graph/index.js'
import { runOnce, TestSession } from '../../graph/testing/run.js'
import { differentiate } from '../index.js'
import { Kit, type KitOptions, uniform } from './kit.js'

/** All gradients of a grown graph, one list a parameter. */
export async function gradientsOf(kit: Kit, loss: Value): Promise<number[][]> {
  const { of } = differentiate(loss, kit.parameters, { unreached: 'zeros' })
  const outputs = Object.fromEntries(kit.parameters.map((value, i) => [`d${i}`, of(value)]))
  const result = await runOnce(kit.g.outputs(outputs), kit.fed())
  return kit.parameters.map((value, i) => {
    const { dims, data } = result[`d${i}`]!
    expect(dims).toEqual(kit.feeds[value.name]!.dims)
    return data
  })
}

/** Central differences of the loss along every element of every parameter. */
export async function differencesOf(kit: Kit, loss: Value, step = 1e-5): Promise<number[][]> {
  const session = await TestSession.create(kit.g.outputs({ loss }))
  const at = async (name: string, index: number, shift: number) => {
    const fed = kit.feeds[name]!
    const moved = { dims: fed.dims, data: fed.data.with(index, fed.data[index]! + shift) }
    return (await session.run({ ...kit.fed(), [name]: moved }))['loss']!.data[0]!
  }
  try {
    const all: number[][] = []
    for (const { name } of kit.parameters) {
      const slopes: number[] = []
      for (const index of kit.feeds[name]!.data.keys()) {
        slopes.push(((await at(name, index, step)) - (await at(name, index, -step))) / (2 * step))
      }
      all.push(slopes)
    }
    return all
  } finally {
    await session.dispose()
  }
}

/** The loss's slope when all parameters move along one random direction, by differences and by the gradients. */
export async function slopesAlong(kit: Kit, loss: Value, gradients: number[][], seed: number, step = 1e-5) {
  const random = uniform(seed)
  const direction = gradients.map((list) => list.map(() => 2 * random() - 1))
  const session = await TestSession.create(kit.g.outputs({ loss }))
  const at = async (shift: number) => {
    const feeds = { ...kit.feeds }
    kit.parameters.forEach(({ name }, i) => {
      const { dims, data } = feeds[name]!
      feeds[name] = { dims, data: data.map((value, j) => value + shift * direction[i]![j]!) }
    })
    return (await session.run(feeds))['loss']!.data[0]!
  }
  try {
    const byDifference = ((await at(step)) - (await at(-step))) / (2 * step)
    const products = gradients.flatMap((list, i) => list.map((value, j) => value * direction[i]![j]!))
    return { byDifference, byGradient: products.reduce((sum, value) => sum + value, 0) }
  } finally {
    await session.dispose()
  }
}

/** |a - b| / max(0.1, |b|) over all numbers. */
export function distance(a: number[][], b: number[][]): number {
  const norm = (list: number[]) => Math.hypot(...list)
  const [x, y] = [a.flat(), b.flat()]
  expect(x.length).toBe(y.length)
  return norm(x.map((value, i) => value - y[i]!)) / Math.max(0.1, norm(y))
}

/** Grows the same graph in both precisions. */
export function inBoth(options: Omit<KitOptions, 'precision'>, grow: (kit: Kit) => Value) {
  const [double, single] = (['double', 'single'] as const).map((precision) => {
    const kit = new Kit({ ...options, precision })
    return { kit, loss: kit.loss(grow(kit)) }
  })
  return { double: double!, single: single! }
}
