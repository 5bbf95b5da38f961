import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { CheckpointError, NonFiniteError } from '@selfplay/engine'
import { ConfigError, DatasetError } from '../src/errors.js'
import { frozenAgent, scriptedAgent } from '../src/magrpo/agents.js'
import type { PromptRow } from '../src/magrpo/types.js'
import { dpoLoss, MADPOTrainer, readPairs, selectPairs, type MADPOConfig } from '../src/preference/index.js'
import { countA, exact, readLines, rows, temporaryFolder } from './support/setup.js'
import { ToyClient } from './support/toy-client.js'

const base = {
  preferenceNumCandidates: 8,
  preferencePairsPerSample: 6,
  pairsPerUpdate: 4,
  maxNewTokens: 5,
  agentLearningRate: 0.05,
} as const

type Options = Partial<ConstructorParameters<typeof MADPOTrainer<PromptRow>>[0]>
function madpo({ config, ...options }: Options = {}) {
  const agents = (options.agents ?? [new ToyClient(), new ToyClient({ seed: 1 })]) as ToyClient[]
  const trainer = new MADPOTrainer<PromptRow>({
    rewardFunc: countA,
    trainDataset: rows(3),
    onNotice: () => {},
    ...options,
    agents,
    config: { ...base, ...config },
  })
  return { trainer, agents }
}

describe('selectPairs', () => {
  const rewards = [1, 3, 3, null, 2.5]
  const choose = (more: object, seed = 1) =>
    selectPairs(
      rewards,
      { pairSelection: 'reward_gap', preferencePairsPerSample: null, minRewardGap: 0, ...more },
      seed,
    ).map(({ winner, loser, gap }) => `${winner}>${loser} ${gap}`)

  it('drops ties and answers that were left out, and puts the largest gap first', () => {
    expect(choose({})).toEqual(['1>0 2', '2>0 2', '4>0 1.5', '1>4 0.5', '2>4 0.5'])
    expect(choose({ preferencePairsPerSample: 2 })).toEqual(['1>0 2', '2>0 2'])
    expect(choose({ minRewardGap: 1.5 })).toEqual(['1>0 2', '2>0 2'])
  })

  it('all: in the order of the answers; random: any of them, by seed', () => {
    expect(choose({ pairSelection: 'all' })).toEqual(['1>0 2', '2>0 2', '4>0 1.5', '1>4 0.5', '2>4 0.5'])
    const some = (seed: number) => choose({ pairSelection: 'random', preferencePairsPerSample: 3 }, seed)
    expect(some(1)).toEqual(some(1))
    expect(new Set([1, 2, 3, 4, 5].map((seed) => some(seed).join())).size).toBeGreaterThan(1)
    expect(some(1).every((pair) => choose({}).includes(pair))).toBe(true)
  })
})

describe('dpoLoss', () => {
  it('is log 2 where nothing has been learnt, and by hand elsewhere', () => {
    expect(dpoLoss([0, 0], [0, 0], 0.1)).toEqual({ loss: Math.log(2), slopes: [-0.025, -0.025] })
    const { loss, slopes } = dpoLoss([2], [1], 0.5)
    expect(loss).toBeCloseTo(-Math.log(1 / (1 + Math.exp(-1.5))), 12)
    expect(slopes[0]).toBeCloseTo(-0.5 / (1 + Math.exp(1.5)), 12)
  })

  it('the slope is that of the loss, by the own part only', () => {
    const ratio = fc.double({ min: -30, max: 30, noNaN: true })
    fc.assert(
      fc.property(fc.array(ratio, { minLength: 1, maxLength: 4 }), ratio, (own, other) => {
        const others = own.map(() => other)
        const { slopes } = dpoLoss(own, others, 0.3)
        own.forEach((value, p) => {
          const at = (h: number) =>
            dpoLoss(
              own.map((x, i) => (i === p ? value + h : x)),
              others,
              0.3,
            ).loss
          expect((at(1e-5) - at(-1e-5)) / 2e-5).toBeCloseTo(slopes[p]!, 6)
        })
      }),
      { seed: 1 },
    )
  })

  it('does not overflow', () => {
    expect(dpoLoss([1e6], [0], 1)).toEqual({ loss: 0, slopes: [-0] })
    expect(dpoLoss([-1e6], [0], 1)).toEqual({ loss: 1e6, slopes: [-1] })
  })
})

describe('MADPOTrainer', () => {
  it('samples pairs of the agents as they are, and starts at log 2: the reference is where it starts', async () => {
    const { trainer } = madpo()
    for await (const { step, loss, accuracy, metrics, totalSteps } of trainer.updates()) {
      expect([step, totalSteps]).toEqual([1, 5])
      expect(loss).toBeCloseTo(Math.log(2), 5)
      expect(accuracy).toBeLessThanOrEqual(1)
      expect(Math.abs(metrics['agent_0/winner_gain']!)).toBeLessThan(1e-5)
      break
    }
    const pairs = trainer.pairs!
    expect(pairs).toHaveLength(18)
    for (const { winnerReward, loserReward, winner, loser } of pairs) {
      expect(winnerReward).toBeGreaterThan(loserReward)
      const count = (sides: typeof winner) => sides.reduce((sum, { text }) => sum + text.split('a').length - 1, 0)
      expect([count(winner), count(loser)]).toEqual([winnerReward, loserReward])
    }
  })

  it('learns what the pairs prefer: rewards rise, winners gain on losers', async () => {
    const { trainer } = madpo({ config: { numTrainEpochs: 6, preferenceNumCandidates: 16, dpoBeta: 0.3 } })
    const before = (await trainer.evaluate({ rows: rows(3), generations: 32 })).metrics['turn_1/reward_mean']!
    const losses: number[] = []
    let accuracy = 0
    for await (const update of trainer.updates()) {
      losses.push(update.loss)
      ;({ accuracy } = update)
    }
    const after = (await trainer.evaluate({ rows: rows(3), generations: 32 })).metrics['turn_1/reward_mean']!
    expect(losses.at(-1)!).toBeLessThan(losses[0]! - 0.1)
    expect(accuracy).toBe(1)
    expect(after).toBeGreaterThan(before + 0.5)
  })

  it('log-ratios are to the reference: one that already prefers the winner asks for more', async () => {
    const other = await new ToyClient({ seed: 9 }).snapshot()
    const { trainer } = madpo({ references: [other, null] })
    for await (const { loss, metrics } of trainer.updates()) {
      expect(loss).not.toBeCloseTo(Math.log(2), 4)
      expect(Math.abs(metrics['agent_0/winner_gain']!)).toBeGreaterThan(1e-3)
      expect(Math.abs(metrics['agent_1/winner_gain']!)).toBeLessThan(1e-5)
      break
    }
  })

  it('an agent learns less from a pair that the others have settled', async () => {
    const alone = dpoLoss([1], [0], 1).slopes[0]!
    const helped = dpoLoss([1], [5], 1).slopes[0]!
    expect(Math.abs(helped)).toBeLessThan(Math.abs(alone) / 10)
  })

  it('trains a shared client once for both its agents, and leaves frozen and scripted ones alone', async () => {
    const shared = new ToyClient()
    const still = new ToyClient({ seed: 2 })
    const before = [...still.weights]
    const { trainer } = madpo({ agents: [shared, shared, frozenAgent(still), scriptedAgent(['a', 'b'])] })
    await trainer.train()
    expect(shared.step).toBe(5)
    expect([...still.weights]).toEqual(before)
  })

  it('check 48: a run in two parts equals one in one; without its pairs it is refused', async () => {
    const evalDataset = rows(2)
    const whole = madpo({ run: await temporaryFolder(), evalDataset })
    await whole.trainer.train()
    const directory = await temporaryFolder()
    await madpo({ run: directory, evalDataset, config: { maxSteps: 2 } }).trainer.train()
    const rest = madpo({ run: { directory, resume: true }, evalDataset })
    await rest.trainer.train()
    expect(rest.agents.map(({ weights }) => [...weights])).toEqual(whole.agents.map(({ weights }) => [...weights]))
    const lines = (await readLines(join(directory, 'metrics.jsonl'))).map(exact)
    expect(lines.map(({ step }) => step)).toEqual([1, 2, 3, 4, 5])
    expect(rest.trainer.pairs).toEqual(whole.trainer.pairs)
    const path = join(directory, 'pairs.jsonl')
    const text = await readFile(path, 'utf8')
    await rm(path)
    const resumed = () => madpo({ run: { directory, resume: true }, config: { maxSteps: 9 } }).trainer.train()
    await expect(resumed()).rejects.toThrow(/pairs.jsonl is gone/)
    await writeFile(path, text.replace('"winnerReward":', '"winnerReward":1'))
    await expect(resumed()).rejects.toThrow(CheckpointError)
    await writeFile(path, text.replace('"formatVersion":1', '"formatVersion":7'))
    await expect(readPairs(path)).rejects.toThrow(/format version 7/)
  })

  it('check 45: an abort while sampling or training ends it; the run goes on', async () => {
    const directory = await temporaryFolder()
    const first = madpo({ run: directory })
    const controller = new AbortController()
    first.agents[0]!.onSample = () => controller.abort(new Error('enough'))
    await expect(first.trainer.train({ signal: controller.signal })).rejects.toThrow('enough')
    const second = madpo({ run: { directory, resume: true } })
    let steps = 0
    for await (const { step } of second.trainer.updates()) if ((steps = step) === 2) break
    expect(steps).toBe(2)
    const third = madpo({ run: { directory, resume: true } })
    expect((await third.trainer.train()).steps).toBe(5)
  })

  it('check 20: equal rewards are no preference, and it says so with the numbers', async () => {
    const { trainer } = madpo({ rewardFunc: ({ completions }) => completions[0]!.map(() => 0.5) })
    await expect(trainer.train()).rejects.toThrow(DatasetError)
    await expect(trainer.train()).rejects.toThrow(/none of 24 joint answers to 3 prompts.*from 0.5 to 0.5/)
  })

  it('check 22: null leaves candidates out of all pairs', async () => {
    const { trainer } = madpo({
      rewardFunc: ({ completions }) => completions[0]!.map((_, k) => (k < 6 ? null : k)),
      config: { pairSelection: 'all', preferencePairsPerSample: null },
    })
    await trainer.train()
    expect(trainer.pairs!.map(({ winnerReward, loserReward }) => [winnerReward, loserReward])).toEqual(
      [0, 1, 2].map(() => [7, 6]),
    )
  })

  it('check 18: a loss that is not finite is refused with its place', async () => {
    const { trainer, agents } = madpo()
    agents[0]!.onForwardBackward = () => {
      throw new NonFiniteError('the loss of datum 3 is Infinity', { datum: 3 })
    }
    const failure = await trainer.train().catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(NonFiniteError)
    expect((failure as Error).message).toMatch(/update 1, agent 0, pair 1/)
    expect(agents[0]!.step).toBe(0)
  })

  it('check 57: every option of its own changes something', async () => {
    const outcome = async (config: MADPOConfig) => {
      const { trainer, agents } = madpo({ config: { maxSteps: 2, ...config } })
      await trainer.train()
      return agents.map(({ weights }) => [...weights])
    }
    const plain = await outcome({})
    const changed: MADPOConfig[] = [
      { preferenceNumCandidates: 9 },
      { pairSelection: 'random' },
      { pairSelection: 'all', preferencePairsPerSample: null },
      { preferencePairsPerSample: 3 },
      { minRewardGap: 1 },
      { dpoBeta: 0.5, agentLearningRate: 0.05 },
      { pairsPerUpdate: 2 },
      { seed: 1 },
    ]
    for (const config of changed) expect(await outcome(config), JSON.stringify(config)).not.toEqual(plain)
  })

  it.each([
    ['all with a number of pairs', { pairSelection: 'all' }, /leave one out/],
    ['one candidate', { preferenceNumCandidates: 1 }, /preferenceNumCandidates/],
    ['an unknown option', { dpobeta: 1 }, /did you mean "dpoBeta"/],
    ['several turns', { numTurns: 2 }, /no option "numTurns"/],
  ])('refuses %s', (_, config, message) => {
    expect(() => madpo({ config: config as MADPOConfig })).toThrow(ConfigError)
    expect(() => madpo({ config: config as MADPOConfig })).toThrow(message)
  })
})
