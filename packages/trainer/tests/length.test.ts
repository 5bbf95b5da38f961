import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { MAGRPOConfig } from '../src/magrpo/config.js'
import type { ExternalTransition, PromptRow } from '../src/magrpo/types.js'
import { MADPOTrainer, type MADPOConfig } from '../src/preference/index.js'
import { SupervisedTrainer } from '../src/supervised/trainer.js'
import { resumeSetup } from './support/resume-setup.js'
import { toyRL } from './support/rl.js'
import { countA, exact, inTurns, readLines, rows, temporaryFolder, toyTrainer } from './support/setup.js'
import { ToyClient } from './support/toy-client.js'

const feedback: ExternalTransition<PromptRow> = ({ agentCompletions, numAgents }) =>
  Array.from({ length: numAgents }, (_, agent) => `a${agentCompletions[agent]!.slice(0, 3)}`)

/** Everything of a run that must not depend on when its length was decided. */
async function outcome(run: string, clients: readonly ToyClient[]) {
  const lines = async (name: string) =>
    (await readLines(join(run, name))).map((row) => {
      // A share of the length can only be that of the length it had then.
      const { 'progress/done_frac': _frac, progress: _progress, ...rest } = exact(row)
      return rest
    })
  return {
    metrics: await lines('metrics.jsonl'),
    evaluations: await lines('evaluations.jsonl').catch(() => []),
    rollouts: await lines('rollouts.jsonl').catch(() => []),
    weights: clients.map(({ weights }) => [...weights]),
    steps: clients.map(({ step }) => step),
  }
}

interface Started {
  readonly trainer: { train(): Promise<unknown> }
  readonly clients: readonly ToyClient[]
  readonly told: readonly (readonly [code: string, message: string])[]
}

function magrpo(directory: string, resume: boolean, config: MAGRPOConfig): Started {
  const told: [string, string][] = []
  const { trainer, agents } = toyTrainer({
    run: { directory, resume },
    trainDataset: rows(5),
    evalDataset: rows(2),
    ...inTurns(config.numTurns, feedback),
    config: { checkpointEvery: 3, evalInterval: 4, order: 'shuffled', ...config },
    onNotice: ({ code, message }) => told.push([code, message]),
  })
  return { trainer, clients: agents, told }
}

function rl(directory: string, resume: boolean, steps: number): Started {
  const told: [string, string][] = []
  const { trainer, client } = toyRL({
    ...resumeSetup(directory, 'plain', resume),
    steps,
    onNotice: ({ code, message }) => told.push([code, message]),
  })
  return { trainer, clients: [client], told }
}

function supervised(directory: string, resume: boolean, length: { epochs?: number; steps?: number }): Started {
  const told: [string, string][] = []
  const client = new ToyClient()
  const trainer = new SupervisedTrainer({
    client,
    dataset: Array.from({ length: 4 }, (_, i) => ({
      tokens: Int32Array.of(1, 2 + i, 3),
      weights: Float32Array.of(0, 1, 1),
    })),
    evalDataset: [{ tokens: Int32Array.of(1, 2, 3), weights: Float32Array.of(0, 1, 1) }],
    learningRate: 0.01,
    learningRateSchedule: 'constant',
    batchSize: 2,
    checkpointEvery: 3,
    evalEvery: 4,
    run: { directory, resume },
    onNotice: ({ code, message }) => told.push([code, message]),
    ...length,
  })
  return { trainer, clients: [client], told }
}

function madpo(directory: string, resume: boolean, config: MADPOConfig): Started {
  const told: [string, string][] = []
  const clients = [new ToyClient(), new ToyClient({ seed: 1 })]
  const trainer = new MADPOTrainer<PromptRow>({
    agents: clients,
    rewardFunc: countA,
    trainDataset: rows(3),
    evalDataset: rows(1),
    config: {
      preferenceNumCandidates: 8,
      preferencePairsPerSample: 4,
      pairsPerUpdate: 4,
      maxNewTokens: 5,
      agentLearningRate: 0.05,
      evalInterval: 4,
      checkpointEvery: 3,
      ...config,
    },
    run: { directory, resume },
    onNotice: ({ code, message }) => told.push([code, message]),
  })
  return { trainer, clients, told }
}

type Make = (directory: string, resume: boolean) => Started

const twoTurns: MAGRPOConfig = { numTurns: 2, numGenerations: 2, advantageMode: 'rae', warmupSteps: 8 }

/** A short run, and the same one asked for more. Ends between and at checkpoints, evaluations and ends of epochs. */
const variants: [string, Make, Make][] = [
  ...[4, 5, 6].map((maxSteps): [string, Make, Make] => [
    `MAGRPOTrainer, maxSteps ${maxSteps} and 11`,
    (at, resume) => magrpo(at, resume, { numTrainEpochs: 4, maxSteps }),
    (at, resume) => magrpo(at, resume, { numTrainEpochs: 4, maxSteps: 11 }),
  ]),
  [
    'MAGRPOTrainer, numTrainEpochs 1 and 3, two turns, running baselines, warm-up',
    (at, resume) => magrpo(at, resume, { ...twoTurns, numTrainEpochs: 1 }),
    (at, resume) => magrpo(at, resume, { ...twoTurns, numTrainEpochs: 3 }),
  ],
  ['RLTrainer, steps 4 and 10', (at, resume) => rl(at, resume, 4), (at, resume) => rl(at, resume, 10)],
  [
    'SupervisedTrainer, epochs 1 and 4',
    (at, resume) => supervised(at, resume, { epochs: 1 }),
    (at, resume) => supervised(at, resume, { epochs: 4 }),
  ],
  [
    'SupervisedTrainer, steps 3 and 7',
    (at, resume) => supervised(at, resume, { epochs: 4, steps: 3 }),
    (at, resume) => supervised(at, resume, { epochs: 4, steps: 7 }),
  ],
  [
    'MADPOTrainer, numTrainEpochs 1 and 3',
    (at, resume) => madpo(at, resume, { numTrainEpochs: 1 }),
    (at, resume) => madpo(at, resume, { numTrainEpochs: 3 }),
  ],
]

describe('a finished run that is to be longer', () => {
  it.each(variants)('%s: is what it would have been with this length from the start', async (_, short, long) => {
    const folder = await temporaryFolder()
    const whole = long(join(folder, 'whole'), false)
    await whole.trainer.train()
    const want = await outcome(join(folder, 'whole'), whole.clients)

    const run = join(folder, 'run')
    await short(run, false).trainer.train()
    const done = (await readLines(join(run, 'metrics.jsonl'))).length
    expect(done).toBeLessThan(want.metrics.length)
    const longer = long(run, true)
    await longer.trainer.train()
    expect(await outcome(run, longer.clients)).toEqual(want)
    expect(longer.told.find(([code]) => code === 'length_changed')?.[1]).toMatch(
      /^\w+ was \d+ and is \d+; the run goes on as one that was begun like this$/,
    )
    expect(longer.told.map(([code]) => code)).not.toContain('already_finished')
  })

  it('follows the schedule of the new length from there on, and says so', async () => {
    const folder = await temporaryFolder()
    const config = (maxSteps: number): MAGRPOConfig => ({
      numTrainEpochs: 4,
      maxSteps,
      agentLearningRate: 0.1,
      learningRateSchedule: 'linear',
    })
    const rates = async (run: string) =>
      (await readLines(join(run, 'metrics.jsonl'))).map((row) => row['agent_0/learning_rate'] as number)
    const run = join(folder, 'run')
    await magrpo(run, false, config(4)).trainer.train()
    const longer = magrpo(run, true, config(8))
    await longer.trainer.train()
    const expected = [1, 3 / 4, 2 / 4, 1 / 4, 4 / 8, 3 / 8, 2 / 8, 1 / 8].map((factor) => 0.1 * factor)
    const got = await rates(run)
    expect(got).toHaveLength(8)
    got.forEach((rate, i) => expect(rate).toBeCloseTo(expected[i]!, 12))
    expect(longer.told.find(([code]) => code === 'length_changed')?.[1]).toMatch(
      /maxSteps was 4 and is 8; .*from update 5 on the learning rate follows the linear schedule of the new length/,
    )
  })

  it('says that buffered nodes were trained at the old end', async () => {
    const run = join(await temporaryFolder(), 'run')
    const config: MAGRPOConfig = { numTrainEpochs: 4, rolloutBufferSize: 3 }
    await magrpo(run, false, { ...config, maxSteps: 4 }).trainer.train()
    const longer = magrpo(run, true, { ...config, maxSteps: 8 })
    await longer.trainer.train()
    expect(longer.told.find(([code]) => code === 'length_changed')?.[1]).toMatch(
      /not quite .* buffer at an earlier end/,
    )
  })
})

describe('a finished run that is resumed as it is', () => {
  it.each<[string, Make, RegExp]>([
    [
      'MAGRPOTrainer',
      (at, resume) => magrpo(at, resume, { numTrainEpochs: 4, maxSteps: 4 }),
      /all of its updates \(4\).*maxSteps 4/,
    ],
    [
      'MAGRPOTrainer',
      (at, resume) => magrpo(at, resume, { numTrainEpochs: 1 }),
      /all of its updates \(5\).*numTrainEpochs 1/,
    ],
    ['RLTrainer', (at, resume) => rl(at, resume, 3), /all of its updates \(3\).*steps 3/],
    ['SupervisedTrainer', (at, resume) => supervised(at, resume, { epochs: 1 }), /all of its updates \(2\).*epochs 1/],
    ['SupervisedTrainer', (at, resume) => supervised(at, resume, { steps: 1 }), /all of its updates \(1\).*steps 1/],
    ['MADPOTrainer', (at, resume) => madpo(at, resume, {}), /all of its updates \(3\).*numTrainEpochs 1/],
  ])('%s: says that it is finished and how to lengthen it, and changes nothing', async (_, make, message) => {
    const run = join(await temporaryFolder(), 'run')
    const first = make(run, false)
    await first.trainer.train()
    const want = await outcome(run, first.clients)
    const checkpoints = await readdir(join(run, 'checkpoints'))
    expect(first.told.map(([code]) => code)).not.toContain('already_finished')
    const again = make(run, true)
    await again.trainer.train()
    expect(again.told.find(([code]) => code === 'already_finished')?.[1]).toMatch(message)
    expect(again.told.map(([code]) => code)).not.toContain('length_changed')
    expect(await outcome(run, again.clients)).toEqual(want)
    expect(await readdir(join(run, 'checkpoints'))).toEqual(checkpoints)
  })

  it('makes no update when it is asked for fewer than it has', async () => {
    const folder = await temporaryFolder()
    const makers: [string, Make, Make][] = [
      [
        'magrpo',
        (at, resume) => magrpo(at, resume, { maxSteps: 5 }),
        (at, resume) => magrpo(at, resume, { maxSteps: 3 }),
      ],
      ['rl', (at, resume) => rl(at, resume, 4), (at, resume) => rl(at, resume, 2)],
      [
        'supervised',
        (at, resume) => supervised(at, resume, { epochs: 3, steps: 4 }),
        (at, resume) => supervised(at, resume, { epochs: 3, steps: 2 }),
      ],
    ]
    for (const [name, long, short] of makers) {
      const run = join(folder, name)
      await long(run, false).trainer.train()
      const { metrics } = await outcome(run, [])
      const shorter = short(run, true)
      await shorter.trainer.train()
      expect((await outcome(run, [])).metrics).toEqual(metrics)
      expect(shorter.told.map(([code]) => code)).toContain('already_finished')
    }
  })
})
