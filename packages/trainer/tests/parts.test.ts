import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { batches, epochOrder, type Dataset } from '../src/dataset.js'
import { followSignal, runLimited, settleAll, withDeadline } from '../src/deadline.js'
import { ConfigError } from '../src/errors.js'
import { toDatum } from '../src/magrpo/datums.js'
import { samplingMetrics, turnMetrics } from '../src/magrpo/metrics.js'
import type { AnalysedNode } from '../src/magrpo/analyse.js'
import type { Seat } from '../src/magrpo/agents.js'
import { Random, deriveSeed } from '@selfplay/env'
import { noCollapse, watchForCollapse } from '../src/run/collapse.js'
import { JsonlFile, writeFileAtomic } from '../src/run/files.js'
import { legalName, runFolderName } from '../src/run/legal-name.js'
import { scheduleFactor } from '../src/schedule.js'
import { nearest } from '@selfplay/renderers'
import { temporaryFolder, toyTrainer } from './support/setup.js'

describe('Random', () => {
  it('repeats from its seed and from its state, and differs between seeds', () => {
    const draw = (random: Random) => Array.from({ length: 5 }, () => random.word())
    expect(draw(new Random(3))).toEqual(draw(new Random(3)))
    expect(draw(new Random(3))).not.toEqual(draw(new Random(4)))
    const random = new Random(3)
    draw(random)
    const copy = new Random(random.state)
    expect(draw(copy)).toEqual(draw(random))
  })

  it('is uniform and shuffles without losing anything', () => {
    const random = new Random(1)
    const counts = Array.from({ length: 8 }, () => 0)
    for (let i = 0; i < 80_000; i++) counts[random.below(8)]!++
    for (const count of counts) expect(Math.abs(count - 10_000)).toBeLessThan(500)
    const items = Array.from({ length: 20 }, (_, i) => i)
    const shuffled = random.shuffle(items)
    expect(shuffled).not.toEqual(items)
    expect(shuffled.sort((a, b) => a - b)).toEqual(items)
  })

  it('derives seeds that tell places apart', () => {
    const seeds = new Set<number>()
    for (let a = 0; a < 50; a++) for (let b = 0; b < 50; b++) seeds.add(deriveSeed(7, a, b))
    expect(seeds.size).toBe(2500)
    expect(deriveSeed(7, 1, 23)).not.toBe(deriveSeed(7, 12, 3))
    expect(deriveSeed(7, 1)).not.toBe(deriveSeed(8, 1))
    for (const seed of seeds) expect(seed).toBeLessThan(2 ** 31)
  })
})

describe('scheduleFactor', () => {
  const at = (kind: 'constant' | 'linear' | 'cosine', step: number, warmupSteps = 0, finalFraction = 0) =>
    scheduleFactor({ kind, warmupSteps, finalFraction }, step, 10)

  it('warms up, then follows its kind', () => {
    expect([0, 1, 2, 3, 9].map((step) => at('constant', step, 4))).toEqual([0.25, 0.5, 0.75, 1, 1])
    expect(at('linear', 0)).toBe(1)
    expect(at('linear', 5)).toBeCloseTo(0.5, 12)
    expect(at('linear', 6, 2, 0.2)).toBeCloseTo(0.2 + 0.8 * 0.5, 12)
    expect(at('cosine', 5)).toBeCloseTo(0.5, 12)
    expect(at('cosine', 2)).toBeCloseTo((1 + Math.cos(0.2 * Math.PI)) / 2, 12)
    expect(at('cosine', 10, 0, 0.1)).toBeCloseTo(0.1, 12)
    const open = () => scheduleFactor({ kind: 'linear', warmupSteps: 0, finalFraction: 0 }, 0, null)
    expect(open).toThrow(ConfigError)
    expect(open).toThrow(/linear schedule needs the number of updates/)
  })
})

describe('batches', () => {
  const collect = async (dataset: Dataset<number>, options: Partial<Parameters<typeof batches>[1]> = {}) => {
    const found = []
    for await (const { rows, endOfEpoch, last } of batches(dataset, {
      epochs: 2,
      batchSize: 2,
      order: 'fixed',
      seed: 1,
      ...options,
    })) {
      found.push([rows.map(({ index }) => index), endOfEpoch, last])
    }
    return found
  }
  const whole = [
    [[0, 1], false, false],
    [[2], true, false],
    [[0, 1], false, false],
    [[2], true, true],
  ]

  it('goes through the epochs and knows their ends, for arrays and async sources', async () => {
    expect(await collect([5, 6, 7])).toEqual(whole)
    expect(
      await collect({
        async *[Symbol.asyncIterator]() {
          yield* [5, 6, 7]
        },
      }),
    ).toEqual(whole)
    expect(await collect([5, 6], { epochs: 1 })).toEqual([[[0, 1], true, true]])
  })

  it('skips what a checkpoint has seen', async () => {
    expect(await collect([5, 6, 7], { skip: 3 })).toEqual(whole.slice(3))
    expect(await collect([5, 6, 7], { skip: 4 })).toEqual([])
  })

  it('shuffles by seed and epoch', () => {
    const order = (seed: number, epoch: number) => epochOrder(10, { order: 'shuffled', seed }, epoch)
    expect(order(1, 0)).toEqual(order(1, 0))
    expect(order(1, 0)).not.toEqual(order(1, 1))
    expect(order(1, 0)).not.toEqual(order(2, 0))
    expect([...order(1, 0)].sort((a, b) => a - b)).toEqual(epochOrder(10, { order: 'fixed', seed: 1 }, 0))
  })
})

describe('deadlines', () => {
  const { signal } = new AbortController()

  it('pass results and errors on, leave no timer, and abort what is late', async () => {
    expect(await withDeadline(() => 5, { seconds: 100, signal, what: 'x' })).toBe(5)
    await expect(
      withDeadline(() => Promise.reject(new Error('own')), { seconds: 100, signal, what: 'x' }),
    ).rejects.toThrow('own')
    let inner: AbortSignal | undefined
    const late = withDeadline((given) => ((inner = given), new Promise(() => {})), {
      seconds: 0.01,
      signal,
      what: 'the call',
    })
    await expect(late).rejects.toThrow(/the call has not settled within 0.01 s/)
    expect(inner!.aborted).toBe(true)
  })

  it('limit what runs at once, keep the order, and wait for what was started', async () => {
    let running = 0
    let most = 0
    const job = (value: number) => async () => {
      most = Math.max(most, ++running)
      await new Promise((resolve) => setTimeout(resolve, 5 - value))
      running--
      if (value === 2) throw new Error('two')
      return value
    }
    expect(await runLimited([job(0), job(1), job(3)], 2)).toEqual([0, 1, 3])
    expect(most).toBe(2)
    await expect(runLimited([job(1), job(2), job(4)], 1)).rejects.toThrow('two')
    expect(running).toBe(0)
    let done = false
    const slow = new Promise((resolve) => setTimeout(resolve, 10)).then(() => (done = true))
    await expect(settleAll([Promise.reject(new Error('fast')), slow])).rejects.toThrow('fast')
    expect(done).toBe(true)
  })

  it('follow another signal', () => {
    const controller = new AbortController()
    const followed = followSignal(controller.signal)
    controller.abort(new Error('outer'))
    expect(followed.signal.reason).toEqual(new Error('outer'))
    expect(followSignal(controller.signal).signal.aborted).toBe(true)
  })
})

describe('watchForCollapse', () => {
  const run = (values: number[], options = { window: 2, drop: 0.5 }) => {
    let state = noCollapse
    const steps: number[] = []
    values.forEach((value, i) => {
      const next = watchForCollapse(state, value, i + 1, options)
      if (next.collapse) steps.push(i + 1)
      state = next.state
    })
    return steps
  }

  it('check 37: tells a fall after a rise, once until it has recovered', () => {
    expect(run([0, 0, 1, 1, 1, 0.9, 0.8])).toEqual([])
    expect(run([0, 0, 1, 1, 0, 0, 0])).toEqual([6])
    expect(run([0, 0, 1, 1, 0, 0, 1, 1, 0, 0])).toEqual([6, 10])
    expect(run([1, 1, 0, 0])).toEqual([]) // nothing was gained, nothing is lost
    expect(run([-5, -5, -1, -1, -4, -4])).toEqual([6])
  })

  it('takes noise around one level for what it is', () => {
    for (let seed = 0; seed < 20; seed++) {
      const random = new Random(seed)
      const zeroSum = Array.from({ length: 300 }, () => random.float() - 0.5)
      expect(run(zeroSum, { window: 20, drop: 0.5 }), `seed ${seed}`).toEqual([])
    }
  })
})

describe('names and files', () => {
  it('check 59: names are legal on Windows, and long ones end in a hash', () => {
    expect(legalName('org/name:tag')).toBe('org-name-tag')
    expect(legalName('a\u0000b\nc?')).toBe('a-b-c-')
    expect(legalName('con')).toBe('_con')
    expect(legalName('LPT1.txt')).toBe('_LPT1.txt')
    expect(legalName('dots. . ')).toBe('dots')
    expect(legalName('..')).toBe('unnamed')
    const long = legalName('ä'.repeat(300))
    expect(Buffer.byteLength(long)).toBeLessThanOrEqual(100)
    expect(long).not.toBe(legalName('ä'.repeat(301)))
    expect(runFolderName('length ratio', new Date('2026-11-29T15:30:12.345Z'))).toBe('length ratio-2026-11-29T153012Z')
  })

  it('check 58: text is UTF-8 whatever the locale', async () => {
    const folder = join(await temporaryFolder(), 'ünïcode 😀')
    const file = new JsonlFile(join(folder, 'lines.jsonl'))
    await file.open()
    await file.append([{ text: 'naïve 日本 😀' }, 1])
    expect(file.length).toBe(Buffer.byteLength('{"text":"naïve 日本 😀"}\n1\n'))
    await file.close()
    expect(await readFile(file.path)).toEqual(Buffer.from('{"text":"naïve 日本 😀"}\n1\n', 'utf8'))
    await file.open(Buffer.byteLength('{"text":"naïve 日本 😀"}\n'))
    await file.append([2])
    await file.close()
    expect(await readFile(file.path, 'utf8')).toBe('{"text":"naïve 日本 😀"}\n2\n')
    await expect(file.append([3])).rejects.toThrow(/not open/)
  })

  it('atomic writes leave the old file when they fail', async () => {
    const folder = await temporaryFolder()
    await writeFileAtomic(join(folder, 'a.json'), 'one')
    await mkdir(join(folder, 'b.json'))
    await writeFile(join(folder, 'b.json', 'x'), '')
    await expect(writeFileAtomic(join(folder, 'b.json'), 'two')).rejects.toThrow(/b.json/)
    expect(await readFile(join(folder, 'a.json'), 'utf8')).toBe('one')
  })

  it('suggestions are near or absent', () => {
    expect(nearest('max_new_tokens', ['maxNewTokens', 'maxSteps'])).toBe('maxNewTokens')
    expect(nearest('zebra', ['maxNewTokens'])).toBeUndefined()
  })
})

describe('training data', () => {
  it('check 11: prompt tokens carry nothing, completion tokens everything', () => {
    const completion = { tokens: Int32Array.of(7, 8, 0), logprobs: Float32Array.of(-1, -2, -3) }
    expect(toDatum(Int32Array.of(4, 5), completion, 0.5, 0.7)).toEqual({
      tokens: Int32Array.of(4, 5, 7, 8),
      targets: Int32Array.of(5, 7, 8, 0),
      weights: Float32Array.of(0, 1, 1, 1),
      advantages: Float32Array.of(0, 0.5, 0.5, 0.5),
      samplerLogprobs: Float32Array.of(0, -1, -2, -3),
      temperature: 0.7,
    })
    expect(toDatum(Int32Array.of(4), { tokens: Int32Array.of(0), logprobs: Float32Array.of(-1) }, 1, 1)).toMatchObject({
      tokens: Int32Array.of(4),
      targets: Int32Array.of(0),
      weights: Float32Array.of(1),
    })
  })
})

describe('check 50: metrics', () => {
  it('are means over samples and tokens, not over nodes', async () => {
    // Two prompts in one update: 3 of 4 answers count at one node, all 4 at the other.
    const { trainer } = toyTrainer({
      config: { promptsPerUpdate: 2, maxSteps: 1 },
      rewardFunc: ({ completions, row }) =>
        completions[0]!.map((_, k) => (row.prompt === 'a' ? (k === 0 ? null : 1) : 8)),
    })
    for await (const { metrics, nodes } of trainer.updates()) {
      expect(metrics['turn_1/reward_mean']).toBeCloseTo((3 * 1 + 4 * 8) / 7, 12)
      const tokens = nodes.flatMap(({ node }) => node.completions[0]!.flatMap(({ logprobs }) => [...logprobs]))
      expect(metrics['agent_0/logprob']).toBeCloseTo(tokens.reduce((sum, x) => sum + x, 0) / tokens.length, 6)
    }
  })

  it('of nothing are absent', () => {
    expect(turnMetrics([], 2)).toEqual({})
    const seat = { index: 0, kind: 'trained' } as Seat
    expect(samplingMetrics([] as AnalysedNode[], [seat])).toEqual({})
  })
})
