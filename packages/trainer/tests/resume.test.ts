import { cp, readFile, readdir, rm, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { CheckpointError } from '@selfplay/engine'
import type { MAGRPOConfig } from '../src/magrpo/config.js'
import type { MAGRPOTrainerOptions } from '../src/magrpo/trainer.js'
import type { ExternalTransition, PromptRow } from '../src/magrpo/types.js'
import { exact, inTurns, readLines, rows, temporaryFolder, toyTrainer } from './support/setup.js'
import { ToyClient } from './support/toy-client.js'

const feedback: ExternalTransition<PromptRow> = ({ agentCompletions, numAgents }) =>
  Array.from({ length: numAgents }, (_, agent) => `a${agentCompletions[agent]!.slice(0, 3)}`)

const variants: [string, MAGRPOConfig][] = [
  ['one turn', {}],
  [
    'two turns, running baselines, crossed',
    { numTurns: 2, numGenerations: 2, advantageMode: 'rae', jointMode: 'cross' },
  ],
  ['a buffer that is never empty at a checkpoint', { numTurns: 2, numGenerations: 2, rolloutBufferSize: 4 }],
  ['a KL penalty, two prompts per update', { referenceKl: { coef: 0.2 }, promptsPerUpdate: 2 }],
]

const common: MAGRPOConfig = {
  numTrainEpochs: 4,
  checkpointEvery: 5,
  keepCheckpoints: 10,
  order: 'shuffled',
  evalInterval: 2,
}

function setup(
  run: string,
  config: MAGRPOConfig,
  { resume = false, ...options }: { resume?: boolean } & Partial<MAGRPOTrainerOptions<PromptRow>> = {},
) {
  return toyTrainer({
    ...options,
    run: { directory: run, resume },
    trainDataset: rows(5),
    evalDataset: rows(2),
    ...inTurns(config.numTurns, feedback),
    config: { ...common, ...config },
  })
}

/** Everything of a run that must not depend on where it was interrupted. */
async function outcome(run: string, agents: readonly ToyClient[]) {
  const lines = async (name: string) => (await readLines(join(run, name))).map(exact)
  return {
    metrics: await lines('metrics.jsonl'),
    evaluations: await lines('evaluations.jsonl'),
    rollouts: await lines('rollouts.jsonl'),
    weights: agents.map(({ weights }) => [...weights]),
    steps: agents.map(({ step }) => step),
  }
}

/** A run folder as it is when its process is killed now, and its lock is no more. */
const copyOfKilled = (run: string, to: string) =>
  cp(run, to, { recursive: true, filter: (source) => !source.endsWith('run.lock') })

describe('resume', () => {
  it.each(variants)('is exact: %s', async (_, config) => {
    const folder = await temporaryFolder()
    const whole = setup(join(folder, 'whole'), config)
    await whole.trainer.train()
    const want = await outcome(join(folder, 'whole'), whole.agents)
    expect(want.evaluations.map(({ step }) => step)[0]).toBe(0)
    expect(want.evaluations.at(-1)!['step']).toBe(want.metrics.length)

    // The process dies after update 7: the checkpoint of update 5 is the newest, and lines after it are cut.
    const run = join(folder, 'run')
    const first = setup(run, config)
    for await (const { step } of first.trainer.updates()) {
      if (step === 7) {
        await copyOfKilled(run, join(folder, 'killed'))
        break
      }
    }
    const second = setup(join(folder, 'killed'), config, { resume: true })
    await second.trainer.train()
    expect(await outcome(join(folder, 'killed'), second.agents)).toEqual(want)

    // Leaving the loop writes a checkpoint of update 7 itself.
    const third = setup(run, config, { resume: true })
    const steps: number[] = []
    for await (const { step } of third.trainer.updates()) steps.push(step)
    expect(steps[0]).toBe(8)
    expect(await outcome(run, third.agents)).toEqual(want)
  })

  it('check 54: two runs have equal metrics and weights', async () => {
    const folder = await temporaryFolder()
    const [first, second] = ['a', 'b'].map((name) => setup(join(folder, name), {}))
    await first!.trainer.train()
    await second!.trainer.train()
    expect(await outcome(join(folder, 'a'), first!.agents)).toEqual(await outcome(join(folder, 'b'), second!.agents))
  })

  it('goes on within the process after an abort', async () => {
    const folder = await temporaryFolder()
    const whole = setup(join(folder, 'whole'), {})
    await whole.trainer.train()
    const { trainer, agents } = setup(join(folder, 'run'), {})
    const controller = new AbortController()
    await expect(
      (async () => {
        for await (const { step } of trainer.updates({ signal: controller.signal })) if (step === 3) controller.abort()
      })(),
    ).rejects.toThrow(/abort/i)
    await trainer.train()
    expect(await outcome(join(folder, 'run'), agents)).toEqual(await outcome(join(folder, 'whole'), whole.agents))
  })

  const referenceKl = { coef: 0.2 }

  /** A run with a penalty that was left after 7 updates, and what a whole one comes to. */
  async function stoppedNearReference() {
    const folder = await temporaryFolder()
    const { trainer, agents } = setup(join(folder, 'whole'), { referenceKl })
    await trainer.train()
    const run = join(folder, 'run')
    for await (const { step } of setup(run, { referenceKl }).trainer.updates()) if (step === 7) break
    return { run, whole: await outcome(join(folder, 'whole'), agents) }
  }

  it('compares with the agents at the start of the run, whatever is loaded when it resumes', async () => {
    const { run, whole } = await stoppedNearReference()
    const agents = [new ToyClient({ seed: 5 }), new ToyClient({ seed: 6 })]
    await setup(run, { referenceKl }, { resume: true, agents }).trainer.train()
    expect(await outcome(run, agents)).toEqual(whole)
  })

  it('does not take up a run whose references are gone, unless it is given some', async () => {
    const { run, whole } = await stoppedNearReference()
    await rm(join(run, 'reference'), { recursive: true })
    await expect(setup(run, { referenceKl }, { resume: true }).trainer.train()).rejects.toThrow(
      /reference.agent_0, the policy that referenceKl stays near, is missing.*pass references: /,
    )
    const start = await new ToyClient().snapshot()
    const second = setup(run, { referenceKl }, { resume: true, references: [start, start] })
    await second.trainer.train()
    expect(await outcome(run, second.agents)).toEqual(whole)
  })

  it('takes up a run with settings of running baselines that it never had', async () => {
    const { run, checkpoints } = await interrupted()
    const directory = join(checkpoints, 'step-00000004')
    const state = JSON.parse(await readFile(join(directory, 'trainer.json'), 'utf8')) as { config: object }
    await rewriteTrainer(directory, { ...state, config: { ...state.config, raeDecay: 0.5 } })
    for await (const { step } of setup(run, {}, { resume: true }).trainer.updates()) {
      expect(step).toBe(5)
      break
    }
  })

  async function interrupted(config: MAGRPOConfig = {}) {
    const run = join(await temporaryFolder(), 'run')
    const { trainer } = setup(run, { checkpointEvery: 2, ...config })
    for await (const { step } of trainer.updates()) if (step === 4) break
    const checkpoints = join(run, 'checkpoints')
    return { run, checkpoints, names: (await readdir(checkpoints)).sort() }
  }

  it('check 48: a checkpoint lists everything, and one without a part is refused', async () => {
    const { run, checkpoints, names } = await interrupted({ advantageMode: 'rae' })
    expect(names).toEqual(['step-00000002', 'step-00000004'])
    const directory = join(checkpoints, 'step-00000004')
    const path = join(directory, 'trainer.json')
    const state = JSON.parse(await readFile(path, 'utf8')) as Record<string, unknown>
    for (const part of ['random', 'cursor', 'baselines', 'buffers', 'failures', 'collapse', 'evaluatedAt']) {
      expect(state).toHaveProperty(part)
      const { [part]: _gone, ...rest } = state
      await rewriteTrainer(directory, rest)
      const failure = await setup(run, { advantageMode: 'rae' }, { resume: true })
        .trainer.train()
        .catch((error: unknown) => error)
      expect(failure).toBeInstanceOf(CheckpointError)
      expect(String(failure)).toContain(part)
    }
    await rewriteTrainer(directory, state)
    await rm(join(checkpoints, 'step-00000002'), { recursive: true })
    await rm(join(directory, 'agent_1'), { recursive: true })
    await expect(setup(run, { advantageMode: 'rae' }, { resume: true }).trainer.train()).rejects.toThrow(
      /no complete checkpoint.*agent_1/,
    )
  })

  /** Replaces `trainer.json` as if it had been written so. */
  async function rewriteTrainer(directory: string, state: unknown) {
    const { createHash } = await import('node:crypto')
    const text = JSON.stringify(state)
    await writeFile(join(directory, 'trainer.json'), text, 'utf8')
    const path = join(directory, 'manifest.json')
    const manifest = JSON.parse(await readFile(path, 'utf8')) as {
      files: { path: string; bytes: number; sha256: string }[]
    }
    const entry = manifest.files.find((file) => file.path === 'trainer.json')!
    entry.bytes = Buffer.byteLength(text)
    entry.sha256 = createHash('sha256').update(text).digest('hex')
    await writeFile(path, JSON.stringify(manifest), 'utf8')
  }

  it.each([
    ['a file cut in half', (directory: string) => truncate(join(directory, 'agent_0', 'state.json'), 50)],
    ['a file changed', (directory: string) => flip(join(directory, 'agent_1', 'state.json'))],
    ['no manifest', (directory: string) => rm(join(directory, 'manifest.json'))],
  ])('check 49: %s, and the previous checkpoint is taken and said', async (_, damage) => {
    const { run, checkpoints } = await interrupted()
    await damage(join(checkpoints, 'step-00000004'))
    const notices: string[] = []
    const { trainer } = toyTrainer({
      run: { directory: run, resume: true },
      trainDataset: rows(5),
      evalDataset: rows(2),
      config: { ...common },
      onNotice: ({ message }) => notices.push(message),
    })
    for await (const { step } of trainer.updates()) {
      expect(step).toBe(3)
      break
    }
    expect(notices.join('\n')).toMatch(/step-00000004 is not complete .*using step-00000002/)
    expect((await readLines(join(run, 'metrics.jsonl'))).map(({ step }) => step)).toEqual([1, 2, 3])
  })

  async function flip(path: string) {
    const bytes = await readFile(path)
    bytes[40] = bytes[40]! ^ 1
    await writeFile(path, bytes)
  }

  it('check 49: what a save left behind when it was killed is not taken for a checkpoint', async () => {
    const { run, checkpoints } = await interrupted()
    await cp(join(checkpoints, 'step-00000004'), join(checkpoints, '.tmp-step-00000006-1'), { recursive: true })
    const { trainer } = setup(run, {}, { resume: true })
    for await (const { step } of trainer.updates()) {
      expect(step).toBe(5)
      break
    }
  })

  it('sets later checkpoints aside when it goes on from an earlier one, so that they are never taken for the newest', async () => {
    const { run, checkpoints } = await interrupted()
    const notices: string[] = []
    const earlier = toyTrainer({
      run: { directory: run, resume: join(checkpoints, 'step-00000002') },
      trainDataset: rows(5),
      evalDataset: rows(2),
      config: { ...common, checkpointEvery: 0 },
      onNotice: ({ message }) => notices.push(message),
    })
    for await (const { step } of earlier.trainer.updates()) if (step === 3) break
    expect(notices.join('\n')).toMatch(/step-00000004 is later than update 2.*called set-aside-step-00000004/)
    expect((await readdir(checkpoints)).sort()).toEqual(['set-aside-step-00000004', 'step-00000002', 'step-00000003'])
    const { trainer } = setup(run, {}, { resume: true })
    for await (const { step } of trainer.updates()) {
      expect(step).toBe(4)
      break
    }
    expect((await readLines(join(run, 'metrics.jsonl'))).map(({ step }) => step)).toEqual([1, 2, 3, 4])
  })

  it('keeps the checkpoint that it has just written, however many damaged ones are later', async () => {
    const { run, checkpoints } = await interrupted()
    await rm(join(checkpoints, 'step-00000004', 'trainer.json'))
    const { trainer } = setup(run, { keepCheckpoints: 1, checkpointEvery: 3 }, { resume: true })
    for await (const { step } of trainer.updates()) if (step === 3) break
    expect((await readdir(checkpoints)).sort()).toEqual(['set-aside-step-00000004', 'step-00000003'])
  })

  it('removes what savers that were killed left behind', async () => {
    const { run, checkpoints } = await interrupted()
    await cp(join(checkpoints, 'step-00000004'), join(checkpoints, '.tmp-step-00000006-1'), { recursive: true })
    const { trainer } = setup(run, {}, { resume: true })
    for await (const { step } of trainer.updates()) if (step === 5) break
    expect((await readdir(checkpoints)).filter((name) => name.startsWith('.'))).toEqual([])
  })

  it('neither passes over nor replaces a checkpoint of a newer format', async () => {
    const { run, checkpoints } = await interrupted()
    const path = join(checkpoints, 'step-00000004', 'manifest.json')
    const manifest = JSON.parse(await readFile(path, 'utf8')) as object
    await writeFile(path, JSON.stringify({ ...manifest, formatVersion: 99 }), 'utf8')
    await expect(setup(run, {}, { resume: true }).trainer.train()).rejects.toThrow(
      /step-00000004: its format version is 99/,
    )
    expect((await readdir(checkpoints)).sort()).toEqual(['step-00000002', 'step-00000004'])
  })

  it('refuses other settings, a folder in use, a folder without a run, and lines that are gone', async () => {
    const { run } = await interrupted()
    await expect(setup(run, { numGenerations: 6 }, { resume: true }).trainer.train()).rejects.toThrow(
      /numGenerations was 4 and is 6/,
    )
    await expect(setup(run, {}).trainer.train()).rejects.toThrow(/already holds a run/)
    await expect(setup(join(run, 'other'), {}, { resume: true }).trainer.train()).rejects.toThrow(/no run to resume/)
    await truncate(join(run, 'metrics.jsonl'), 10)
    await expect(setup(run, {}, { resume: true }).trainer.train()).rejects.toThrow(/metrics.jsonl has 10 bytes/)
  })

  it('refuses a newer format by name', async () => {
    const { run, checkpoints } = await interrupted()
    for (const name of await readdir(checkpoints)) {
      const path = join(checkpoints, name, 'manifest.json')
      const manifest = JSON.parse(await readFile(path, 'utf8')) as object
      await writeFile(path, JSON.stringify({ ...manifest, formatVersion: 99 }), 'utf8')
    }
    await expect(setup(run, {}, { resume: true }).trainer.train()).rejects.toThrow(/format version is 99/)
    const path = join(run, 'config.json')
    await writeFile(path, JSON.stringify({ formatVersion: 99 }), 'utf8')
    await expect(setup(run, {}, { resume: true }).trainer.train()).rejects.toThrow(/layout version 99/)
  })

  it('starts over, and says so, when a run died before its first checkpoint', async () => {
    const folder = await temporaryFolder()
    const { trainer } = setup(join(folder, 'run'), { checkpointEvery: 0 })
    for await (const _update of trainer.updates()) {
      await copyOfKilled(join(folder, 'run'), join(folder, 'killed'))
      break
    }
    const again = setup(join(folder, 'killed'), { checkpointEvery: 0 }, { resume: true })
    for await (const { step, notices } of again.trainer.updates()) {
      expect(step).toBe(1)
      expect(notices.map(({ code }) => code)).toContain('started_over')
      break
    }
  })

  it('keeps the newest checkpoints and the best one', async () => {
    const run = join(await temporaryFolder(), 'run')
    let call = 0
    const { trainer } = toyTrainer({
      run,
      // Returns rise for six updates, then fall for good.
      rewardFunc: ({ completions }) => {
        const level = call++ < 6 ? call : -call
        return completions[0]!.map((_, k) => level + 0.01 * k)
      },
      trainDataset: rows(6),
      config: { numTrainEpochs: 3, checkpointEvery: 2, keepCheckpoints: 2, collapse: { window: 2, drop: 0.5 } },
    })
    const collapses: number[] = []
    for await (const { step, notices } of trainer.updates()) {
      if (notices.some(({ code }) => code === 'collapse')) collapses.push(step)
    }
    expect(collapses).toEqual([7])
    const names = (await readdir(join(run, 'checkpoints'))).sort()
    expect(names).toEqual(['step-00000006', 'step-00000016', 'step-00000018'])
  })
})
