import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { writeTinyModel } from '../../packages/selfplay/tests/support/tiny-model.js'
import { allSame, atLeast, atMost, firstShare, lastShare, mean, none } from './finding.js'
import { verifyLengthRatio } from './length-ratio.js'
import { table } from './table.js'

describe('findings', () => {
  it('hold at the bound, and never for NaN or nothing', () => {
    expect([atLeast('x', 0.85, 0.85), atMost('x', 0.6, 0.6)].every(({ holds }) => holds)).toBe(true)
    expect([atLeast('x', 0.849, 0.85), atMost('x', 0.601, 0.6)].some(({ holds }) => holds)).toBe(false)
    expect([atLeast('x', NaN, 0), atMost('x', NaN, 0), atLeast('x', mean([]), 0)].some(({ holds }) => holds)).toBe(
      false,
    )
    expect([allSame('x', []), none('x', 0, 0), allSame('x', ['a', 'b'])].some(({ holds }) => holds)).toBe(false)
    expect([allSame('x', ['a', 'a']), none('x', 0, 3)].every(({ holds }) => holds)).toBe(true)
  })

  it('take shares of a list from either end', () => {
    const list = Array.from({ length: 160 }, (_, i) => i)
    expect(firstShare(list, 0.05)).toEqual([0, 1, 2, 3, 4, 5, 6, 7])
    expect([lastShare(list, 0.2).length, lastShare(list, 0.2)[0]]).toEqual([32, 128])
    expect([firstShare([7], 0.05), lastShare([7], 0.2)]).toEqual([[7], [7]])
  })

  it('stand in a table that names what failed', () => {
    const text = table([
      { check: 'a', seed: 0, ...atLeast('reward', 0.9, 0.85) },
      { check: 'a', seed: 1, ...atLeast('reward', 0.1, 0.85) },
    ])
    expect(text.split('\n').map((line) => line.trimEnd())).toEqual([
      'check  seed  what    value  bound',
      'a      0     reward  0.900  >= 0.85  ok',
      'a      1     reward  0.100  >= 0.85  FAILED',
    ])
  })
})

describe('the length-ratio check', () => {
  let folder = ''
  let model = ''
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'selfplay-verify-test-'))
    model = await writeTinyModel()
  })
  afterAll(async () => {
    await rm(folder, { recursive: true, force: true })
    await rm(model, { recursive: true, force: true })
  })

  it('reads from a run of the command what it holds against the bounds', async () => {
    const directory = join(folder, 'run')
    const recipe = { epochs: 1, maxSteps: 6, generations: 2, maxNewTokens: 4 }
    const { signal } = new AbortController()
    const [weights, prompts, first, last, , unseen] = await verifyLengthRatio(recipe, {
      seed: 3,
      model,
      directory,
      signal,
    })
    expect(weights).toMatchObject({ value: 'the same', holds: true })
    expect(prompts).toMatchObject({ value: '0 of 6', holds: true })
    const rows = await Promise.all(
      ['metrics.jsonl', 'evaluations.jsonl'].map(async (name) => {
        const text = await readFile(join(directory, name), 'utf8')
        return text
          .trim()
          .split('\n')
          .map((line) => JSON.parse(line) as Record<string, number>)
      }),
    )
    const rewards = rows[0]!.map((row) => row['turn_1/raw_reward_mean']!)
    expect(rewards).toHaveLength(6)
    expect(first!.value).toBe(rewards[0]!.toFixed(3))
    expect(last!.value).toBe(((rewards[4]! + rewards[5]!) / 2).toFixed(3))
    expect(unseen).toMatchObject({
      what: 'mean reward on 50 prompts never trained on',
      value: rows[1]!.at(-1)!['eval/turn_1/raw_reward_mean']!.toFixed(3),
    })
  })
})
