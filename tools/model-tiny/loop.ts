import { existsSync } from 'node:fs'
import { mkdir, readFile, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Datum, TrainingClient } from '@selfplay/engine'
import { writeFileAtomic } from '@selfplay/ort'
import { learningRateAt, type Recipe } from './recipe.js'

const FORMAT_VERSION = 1
const PROGRESS_FILE = 'progress.json'

interface Progress {
  readonly formatVersion: number
  readonly recipe: Recipe
  readonly step: number
  readonly state: string
}

/** A work folder that cannot be continued from. */
export class ResumeError extends Error {
  readonly code = 'resume'
  constructor(message: string) {
    super(message)
    this.name = 'ResumeError'
  }
}

/** What one step reports. `loss` is nats per trained token. */
export interface StepReport {
  readonly step: number
  readonly loss: number
  readonly gradNorm: number
  readonly learningRate: number
  readonly tokens: number
}

export interface LoopOptions {
  readonly recipe: Recipe
  readonly batchAt: (step: number) => readonly Datum[]
  /** Holds the checkpoints. */
  readonly workFolder: string
  /** Steps between checkpoints. */
  readonly saveEvery: number
  readonly onStep?: (report: StepReport) => void | Promise<void>
  readonly signal?: AbortSignal
}

/**
 * The step to go on from: 0 in an empty work folder, else the last checkpoint's, whose state is loaded.
 *
 * @throws ResumeError when the checkpoint is of another recipe or of a newer format.
 */
async function resume(client: TrainingClient, recipe: Recipe, workFolder: string): Promise<number> {
  const path = join(workFolder, PROGRESS_FILE)
  if (!existsSync(path)) return 0
  const progress = JSON.parse(await readFile(path, 'utf8')) as Progress
  if (progress.formatVersion > FORMAT_VERSION) {
    throw new ResumeError(
      `${path} has format version ${progress.formatVersion}; this script reads up to ${FORMAT_VERSION}`,
    )
  }
  if (JSON.stringify(progress.recipe) !== JSON.stringify(recipe)) {
    throw new ResumeError(`${workFolder} holds a run of another recipe: remove it or choose another --work folder`)
  }
  await client.loadState(join(workFolder, progress.state))
  return progress.step
}

async function checkpoint(client: TrainingClient, recipe: Recipe, workFolder: string, step: number): Promise<void> {
  const state = `state-${step}`
  await client.saveState(join(workFolder, state))
  const progress: Progress = { formatVersion: FORMAT_VERSION, recipe, step, state }
  await writeFileAtomic(join(workFolder, PROGRESS_FILE), `${JSON.stringify(progress, null, 2)}\n`)
  for (const name of await readdir(workFolder)) {
    if (/^state-\d+$/.test(name) && name !== state) await rm(join(workFolder, name), { recursive: true, force: true })
  }
}

/** Trains with cross entropy (mean per trained token) from the last checkpoint to the recipe's last step; an abort saves first. */
export async function runLoop(client: TrainingClient, options: LoopOptions): Promise<void> {
  const { recipe, batchAt, workFolder, saveEvery, onStep, signal } = options
  await mkdir(workFolder, { recursive: true })
  const first = await resume(client, recipe, workFolder)
  for (let step = first; step < recipe.steps; step++) {
    if (signal?.aborted) {
      if (step > first) await checkpoint(client, recipe, workFolder, step)
      signal.throwIfAborted()
    }
    const data = batchAt(step)
    const learningRate = learningRateAt(step, recipe)
    const { loss } = await client.forwardBackward(data, { name: 'cross_entropy', normalise: 'tokenMean' })
    const { gradNorm } = await client.optimStep({ learningRate, weightDecay: recipe.weightDecay })
    const tokens = data.reduce((sum, datum) => sum + datum.tokens.length, 0)
    await onStep?.({ step, loss, gradNorm, learningRate, tokens })
    if ((step + 1) % saveEvery === 0 || step + 1 === recipe.steps) {
      await checkpoint(client, recipe, workFolder, step + 1)
    }
  }
}
