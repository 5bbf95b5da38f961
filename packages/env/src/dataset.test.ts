import { describe, expect, it } from 'vitest'
import { datasetOf, type RLDataset } from './dataset.js'
import type { EnvGroupBuilder } from './group.js'
import { interleave } from './interleave.js'
import { neverAborted } from './on-abort.js'

const options = { signal: neverAborted }
const groupOfRow = (name: string): EnvGroupBuilder => ({ makeEnvs: () => [], loggingTags: () => [name] })
const names = async (dataset: RLDataset, index: number) =>
  (await dataset.getBatch(index, options)).map((builder) => builder.loggingTags!()[0]!)
const all = async (dataset: RLDataset) => {
  const batches = []
  for (let index = 0; index < dataset.length; index++) batches.push(await names(dataset, index))
  return batches
}
const rows = (prefix: string, count: number) => Array.from({ length: count }, (_, k) => `${prefix}${k}`)
const named = (prefix: string, count: number, batchSize: number) =>
  datasetOf(rows(prefix, count), groupOfRow, { batchSize })

describe('datasetOf', () => {
  it('cuts the rows into batches, and says what becomes of the tail', async () => {
    expect(await all(named('a', 5, 2))).toEqual([['a0', 'a1'], ['a2', 'a3'], ['a4']])
    const floored = datasetOf(rows('a', 5), groupOfRow, { batchSize: 2, keepTail: false })
    expect(await all(floored)).toEqual([
      ['a0', 'a1'],
      ['a2', 'a3'],
    ])
  })

  it('goes through all rows in each epoch, shuffled by its seed', async () => {
    const shuffled = (shuffleSeed: number) =>
      datasetOf(rows('a', 6), groupOfRow, { batchSize: 3, epochs: 2, shuffleSeed })
    const batches = await all(shuffled(1))
    expect(batches).toHaveLength(4)
    const epochs = [batches.slice(0, 2).flat(), batches.slice(2).flat()]
    for (const epoch of epochs) expect([...epoch].sort()).toEqual(rows('a', 6))
    expect(epochs[0]).not.toEqual(epochs[1])
    expect(await all(shuffled(1))).toEqual(batches)
    expect(await all(shuffled(2))).not.toEqual(batches)
    expect(await names(shuffled(1), 3)).toEqual(batches[3]) // without the ones before
  })

  it('refuses what makes no batch', () => {
    expect(() => named('a', 0, 2)).toThrow(/at least one row/)
    expect(() => datasetOf(['a'], groupOfRow, { batchSize: 2, keepTail: false })).toThrow(/make no batch of 2/)
    expect(() => named('a', 2, 0)).toThrow(/batchSize/)
    expect(() => datasetOf(['a'], groupOfRow, { batchsize: 2 } as never)).toThrow(/"batchSize"/)
    expect(() => named('a', 2, 2).getBatch(1, options)).toThrow(/from 0 to 0, got 1/)
  })
})

describe('interleave', () => {
  const sources = () => [
    { dataset: named('a', 12, 3), weight: 2 },
    { dataset: named('b', 7, 2), weight: 1 },
  ]

  it('follows from its seed, batch by batch', async () => {
    const mixed = await interleave(sources(), { groupsPerBatch: 3, seed: 5 })
    const batches = await all(mixed)
    const again = await interleave(sources(), { groupsPerBatch: 3, seed: 5 })
    expect(await names(again, 2)).toEqual(batches[2])
    expect(await all(again)).toEqual(batches)
    expect(await all(await interleave(sources(), { groupsPerBatch: 3, seed: 6 }))).not.toEqual(batches)
  })

  it('ends when the first source would run out, and is never empty', async () => {
    // b lasts 7 / (1/3 * 3) = 7 batches, a 12 / (2/3 * 3) = 6
    expect((await interleave(sources(), { groupsPerBatch: 3, seed: 0 })).length).toBe(6)
    expect((await interleave(sources(), { groupsPerBatch: 100, seed: 0 })).length).toBe(1)
  })

  it('draws sources by weight, and walks each one before it repeats', async () => {
    const mixed = await interleave(sources(), { groupsPerBatch: 30, totalBatches: 20, seed: 1 })
    const drawn = (await all(mixed)).flat()
    const ofA = drawn.filter((name) => name.startsWith('a'))
    expect(ofA.length / drawn.length).toBeGreaterThan(0.6)
    expect(ofA.length / drawn.length).toBeLessThan(0.73)
    for (let cycle = 0; cycle + 12 <= ofA.length; cycle += 12)
      expect(ofA.slice(cycle, cycle + 12).sort()).toEqual(rows('a', 12).sort())
    const ofB = drawn.filter((name) => name.startsWith('b'))
    expect(ofB.slice(0, 7).sort()).toEqual(rows('b', 7))
    expect(ofB.slice(0, 7)).not.toEqual(ofB.slice(7, 14))
  })

  it('refuses sources that cannot be mixed', async () => {
    const mix = (...list: { dataset: RLDataset; weight: number }[]) => interleave(list, { groupsPerBatch: 2, seed: 0 })
    await expect(mix()).rejects.toThrow(/at least one source/)
    await expect(mix({ dataset: named('a', 2, 1), weight: 0 })).rejects.toThrow(/weight above 0/)
    const growing: RLDataset = { length: 2, getBatch: (k) => rows('a', k + 1).map(groupOfRow) }
    await expect(mix({ dataset: growing, weight: 1 })).rejects.toThrow(/batches of one size/)
    const uneven: RLDataset = { length: 3, getBatch: (k) => rows('a', k === 1 ? 1 : 2).map(groupOfRow) }
    const mixed = await interleave([{ dataset: uneven, weight: 1 }], { groupsPerBatch: 6, seed: 0 })
    await expect(async () => mixed.getBatch(0, options)).rejects.toThrow(/fewer than 2 groups/)
  })
})
