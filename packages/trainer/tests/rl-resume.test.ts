import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, readFile, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { listCheckpoints } from '../src/run/checkpoint.js'
import type { RLUpdate } from '../src/rl/trainer.js'
import { letters, toyRL } from './support/rl.js'
import { resumeSetup, resumeVariants } from './support/resume-setup.js'
import { exact, readLines, temporaryFolder } from './support/setup.js'
import type { ToyClient } from './support/toy-client.js'

const variants = Object.keys(resumeVariants) as (keyof typeof resumeVariants)[]

/** Everything of a run that must not depend on where it was interrupted. */
async function outcome(run: string, client: ToyClient) {
  const state = join(run, 'checkpoints', 'step-00000010', 'policy', 'state.json')
  const lines = async (name: string) => (await readLines(join(run, name))).map(exact)
  return {
    metrics: await lines('metrics.jsonl'),
    evaluations: await lines('evaluations.jsonl'),
    rollouts: await readFile(join(run, 'rollouts.jsonl'), 'utf8'),
    weights: [...client.weights],
    saved: await readFile(state, 'utf8'), // weights, optimiser moments and step
    reports: await readdir(join(run, 'reports')),
  }
}

async function whole(folder: string, variant: keyof typeof resumeVariants) {
  const run = join(folder, 'whole')
  const { trainer, client } = toyRL(resumeSetup(run, variant))
  await trainer.train()
  return outcome(run, client)
}

/** Runs in a process of its own until update 7 is finished, and kills it. */
async function kill9(run: string, variant: string): Promise<void> {
  const script = fileURLToPath(new URL('./support/killed-run.ts', import.meta.url))
  const child = spawn(process.execPath, ['--conditions', '@selfplay/source', '--import', 'tsx', script, run, variant], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let errors = ''
  child.stderr.on('data', (data: Buffer) => (errors += data.toString()))
  const ended = once(child, 'exit')
  let text = ''
  for await (const data of child.stdout) {
    text += String(data)
    if (text.includes('update 7')) break
  }
  child.kill('SIGKILL')
  const [, signal] = (await ended) as [number | null, string | null]
  expect({ signal, errors }).toEqual({ signal: 'SIGKILL', errors: '' })
}

describe('resume', () => {
  it.each(variants)('is exact after kill -9: 10 updates = 5, kill, resume, 5 (%s)', async (variant) => {
    const folder = await temporaryFolder()
    const want = await whole(folder, variant)
    expect(want.metrics).toHaveLength(10)
    const run = join(folder, 'killed')
    await kill9(run, variant)
    expect(await readLines(join(run, 'metrics.jsonl'))).toHaveLength(7)
    const names = (await listCheckpoints(join(run, 'checkpoints'))).map((path) => path.slice(-13))
    expect(names).toEqual(['step-00000005'])
    const { trainer, client } = toyRL(resumeSetup(run, variant, true))
    const steps: number[] = []
    for await (const { step } of trainer.updates()) steps.push(step)
    expect(steps).toEqual([6, 7, 8, 9, 10])
    expect(await outcome(run, client)).toEqual(want)
  })

  it.each(variants)('is exact after leaving the loop and after an abort (%s)', async (variant) => {
    const folder = await temporaryFolder()
    const want = await whole(folder, variant)
    const run = join(folder, 'run')
    for await (const { step } of toyRL(resumeSetup(run, variant)).trainer.updates()) if (step === 3) break
    const controller = new AbortController()
    const second = toyRL(resumeSetup(run, variant, true)).trainer
    await expect(
      (async () => {
        for await (const { step } of second.updates({ signal: controller.signal })) if (step === 7) controller.abort()
      })(),
    ).rejects.toThrow(/abort/i)
    const third = toyRL(resumeSetup(run, variant, true))
    await third.trainer.train()
    expect(await outcome(run, third.client)).toEqual(want)
  })

  it('goes on within the process', async () => {
    const folder = await temporaryFolder()
    const want = await whole(folder, 'plain')
    const run = join(folder, 'run')
    const { trainer, client } = toyRL(resumeSetup(run, 'plain'))
    for await (const { step } of trainer.updates()) if (step === 4) break
    await trainer.train()
    expect(await outcome(run, client)).toEqual(want)
  })

  it('compares with the policy at the start of the run, whatever the client holds when it resumes', async () => {
    const run = join(await temporaryFolder(), 'run')
    const variant = 'two turns, a KL penalty and substeps'
    for await (const { step } of toyRL(resumeSetup(run, variant)).trainer.updates()) if (step === 6) break
    await rm(join(run, 'reference'), { recursive: true })
    await expect(toyRL(resumeSetup(run, variant, true)).trainer.train()).rejects.toThrow(/reference.* is missing/)
  })

  it('never trains without its penalty: a reference that could not be saved is kept at the next try', async () => {
    const run = join(await temporaryFolder(), 'run')
    const variant = 'two turns, a KL penalty and substeps'
    const { trainer, client } = toyRL(resumeSetup(run, variant))
    client.saveState = () => Promise.reject(new Error('disk full'))
    await expect(trainer.train()).rejects.toThrow('disk full')
    Reflect.deleteProperty(client, 'saveState')
    await expect(trainer.train()).rejects.toThrow(
      /already holds a run: go on with it by run: { directory, resume: true }/,
    )
    const { metrics } = await toyRL(resumeSetup(run, variant, true)).trainer.train()
    expect(metrics).toHaveProperty('kl_policy_base')
  })

  it('refuses other settings, another loop, a damaged checkpoint and a folder in use', async () => {
    const run = join(await temporaryFolder(), 'run')
    for await (const { step } of toyRL(resumeSetup(run, 'plain')).trainer.updates()) if (step === 6) break
    const again = (overrides: object) => toyRL({ ...resumeSetup(run, 'plain', true), ...overrides }).trainer.train()
    await expect(again({ temperature: 0.5 })).rejects.toThrow(/other settings: temperature was 1 and is 0.5/)
    await expect(again({ run })).rejects.toThrow(/already holds a run/)
    const trainer = join(run, 'checkpoints', 'step-00000006', 'trainer.json')
    const text = await readFile(trainer, 'utf8')
    await writeFile(trainer, text.slice(1))
    const updates: RLUpdate[] = []
    const older = toyRL({ ...resumeSetup(run, 'plain', true), steps: 7 }).trainer
    for await (const update of older.updates()) updates.push(update)
    expect(updates.map(({ step }) => step)).toEqual([6, 7])
    expect(updates[0]!.notices.map(({ code }) => code)).toEqual([
      'resumed',
      'checkpoint_skipped',
      'length_changed',
      'checkpoint_set_aside',
    ])
  })

  it('gives up an update that does not end after an abort, and resumes from the checkpoint before it', async () => {
    const run = join(await temporaryFolder(), 'run')
    const setup = { ...resumeSetup(run, 'plain'), dataset: letters(), numSubsteps: 4, abortGraceSeconds: 0.05 }
    const { trainer, client } = toyRL(setup)
    const controller = new AbortController()
    const original = client.optimStep.bind(client)
    client.optimStep = async (options) => {
      if (client.step === 21) controller.abort(new Error('enough'))
      if (client.step > 21) await new Promise((resolve) => setTimeout(resolve, 100))
      return original(options)
    }
    await expect(trainer.train({ signal: controller.signal })).rejects.toThrow('enough')
    const events = await readLines(join(run, 'events.jsonl'))
    expect(String(events.at(-1)!['message'])).toMatch(/update 6 was given up.*step-00000005/)
    await expect(trainer.train()).rejects.toThrow(/middle of an update/)
    const { trainer: next } = toyRL({ ...setup, run: { directory: run, resume: true } })
    const steps: number[] = []
    for await (const { step } of next.updates()) steps.push(step)
    expect(steps[0]).toBe(6)
  })

  it('a copied run folder goes on where it was copied to', async () => {
    const folder = await temporaryFolder()
    const want = await whole(folder, 'plain')
    const run = join(folder, 'run')
    for await (const { step } of toyRL(resumeSetup(run, 'plain')).trainer.updates()) if (step === 5) break
    await cp(run, join(folder, 'copy'), { recursive: true })
    const { trainer, client } = toyRL(resumeSetup(join(folder, 'copy'), 'plain', true))
    await trainer.train()
    expect(await outcome(join(folder, 'copy'), client)).toEqual(want)
  })
})
