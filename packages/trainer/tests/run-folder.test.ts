import { mkdir, readFile, readdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { RunFolderError } from '../src/errors.js'
import { rows, temporaryFolder, toyTrainer } from './support/setup.js'

const failureOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => 'nothing',
    (error: unknown) => error,
  )

describe('a folder that is no run', () => {
  it.each([
    ['metrics.jsonl', 'metrics.jsonl'],
    ['agent_0', 'agent_0/mine.txt'],
    ['checkpoints', 'checkpoints/mine.txt'],
    ['reference', 'reference/mine.txt'],
    ['config.json', 'config.json'],
  ])('is refused when a run would overwrite its %s, which stays', async (name, file) => {
    const run = join(await temporaryFolder(), 'run')
    const path = join(run, file)
    await mkdir(join(path, '..'), { recursive: true })
    await writeFile(path, '{"mine":1}', 'utf8')
    for (const resume of [false, true]) {
      const failure = await failureOf(toyTrainer({ run: { directory: run, resume } }).trainer.train())
      expect(failure).toBeInstanceOf(RunFolderError)
      expect(failure).toMatchObject({ details: { path: join(run, name) } })
      expect(String(failure)).toMatch(/is in the way: .* Choose another folder, or move .* away/)
    }
    expect(await readFile(path, 'utf8')).toBe('{"mine":1}')
    expect(await readdir(run)).toEqual([name])
  })

  it('is taken when it holds other things, or lines without content', async () => {
    const run = join(await temporaryFolder(), 'run')
    await mkdir(run)
    await writeFile(join(run, 'notes.txt'), 'mine', 'utf8')
    await writeFile(join(run, 'metrics.jsonl'), '', 'utf8')
    await toyTrainer({ run, trainDataset: rows(1), config: { numTrainEpochs: 1 } }).trainer.train()
    expect(await readFile(join(run, 'notes.txt'), 'utf8')).toBe('mine')
  })
})

describe('a run that has lost its config.json', () => {
  it('neither starts over nor is resumed: what is to be restored is named', async () => {
    const run = join(await temporaryFolder(), 'run')
    await toyTrainer({ run }).trainer.train()
    await rm(join(run, 'config.json'))
    const lines = await readFile(join(run, 'metrics.jsonl'), 'utf8')
    for (const resume of [false, true]) {
      const failure = await failureOf(toyTrainer({ run: { directory: run, resume } }).trainer.train())
      expect(String(failure)).toMatch(/If it is a run that has lost its config.json, restore that/)
    }
    expect(await readFile(join(run, 'metrics.jsonl'), 'utf8')).toBe(lines)
  })

  it('is said how it goes on when it has not', async () => {
    const run = join(await temporaryFolder(), 'run')
    await toyTrainer({ run }).trainer.train()
    const failure = await failureOf(toyTrainer({ run }).trainer.train())
    expect(String(failure)).toContain('run: { directory, resume: true }')
  })
})

describe('a run folder that goes away while the run trains', () => {
  const moved = async (how: (run: string) => Promise<void>) => {
    const parent = await temporaryFolder()
    const run = join(parent, 'run')
    const { trainer, agents } = toyTrainer({ run })
    const failure = await failureOf(
      (async () => {
        for await (const { step } of trainer.updates()) if (step === 2) await how(run)
      })(),
    )
    return { parent, failure, steps: agents[0]!.step }
  }

  it.each([
    ['moved', (run: string) => rename(run, `${run}-2`), ['run-2'], /the folder .* is gone: it was moved or deleted/],
    ['deleted', (run: string) => rm(run, { recursive: true }), [], /the folder .* is gone: it was moved or deleted/],
    [
      'replaced',
      (run: string) => rm(run, { recursive: true }).then(() => mkdir(run)),
      [], // empty, it goes with the lock
      /is not this run's any more: the folder was replaced/,
    ],
  ])('ends the run at its next line: %s', async (_, how, left, message) => {
    const { parent, failure, steps } = await moved(how)
    expect(failure).toBeInstanceOf(RunFolderError)
    expect(String(failure)).toMatch(message)
    expect(steps).toBe(3)
    expect(await readdir(parent)).toEqual(left)
  })
})
