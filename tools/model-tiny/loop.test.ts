import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Datum, ForwardResult, OptimStepOptions, TrainingClient } from '@selfplay/engine'
import { afterAll, describe, expect, it } from 'vitest'
import { ResumeError, runLoop } from './loop.js'
import { recipe as bundled, type Recipe } from './recipe.js'

const recipe: Recipe = { ...bundled, steps: 10, warmupSteps: 2 }
const batchAt = (step: number): Datum[] => [
  { tokens: Int32Array.of(step, 1), targets: Int32Array.of(1, 2), weights: Float32Array.of(0, 1) },
]

/** A client of one weight: its gradient is the first token of the batch, its step plain gradient descent. */
class OneWeight {
  weight = 0
  gradient = 0
  step = 0
  readonly seen: number[] = []
  async forwardBackward(data: readonly Datum[]): Promise<ForwardResult> {
    const value = data[0]?.tokens[0] ?? 0
    this.seen.push(value)
    this.gradient += value
    return { loss: this.weight, logprobs: [], metrics: {} }
  }
  async optimStep({ learningRate }: OptimStepOptions) {
    this.weight -= learningRate * this.gradient
    const gradNorm = Math.abs(this.gradient)
    this.gradient = 0
    this.step++
    return { gradNorm, skipped: false }
  }
  async saveState(directory: string): Promise<void> {
    await mkdir(directory)
    await writeFile(join(directory, 'weight.json'), JSON.stringify([this.weight, this.step]))
  }
  async loadState(directory: string): Promise<void> {
    const [weight = 0, step = 0] = JSON.parse(await readFile(join(directory, 'weight.json'), 'utf8')) as number[]
    this.weight = weight
    this.step = step
  }
}

const asClient = (client: OneWeight): TrainingClient => client as unknown as TrainingClient
const folders: string[] = []
afterAll(() => Promise.all(folders.map((made) => rm(made, { recursive: true, force: true }))))
async function folder(): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), 'selfplay-loop-'))
  folders.push(made)
  return made
}

describe('runLoop', () => {
  it('runs every step once, with the learning rate of the recipe, and keeps the last checkpoint only', async () => {
    const client = new OneWeight()
    const rates: number[] = []
    const workFolder = await folder()
    const onStep = ({ learningRate }: { learningRate: number }) => void rates.push(learningRate)
    await runLoop(asClient(client), { recipe, batchAt, workFolder, saveEvery: 4, onStep })
    expect(client.seen).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    expect(rates[1]).toBe(recipe.learningRate)
    expect(rates[9]).toBeLessThan(recipe.learningRate / 10)
    expect((await readdir(workFolder)).toSorted()).toEqual(['progress.json', 'state-10'])
  })

  it('stops with a checkpoint and ends where an uninterrupted run ends', async () => {
    const whole = new OneWeight()
    await runLoop(asClient(whole), { recipe, batchAt, workFolder: await folder(), saveEvery: 100 })
    const workFolder = await folder()
    const stop = new AbortController()
    const onStep = ({ step }: { step: number }) => {
      if (step === 4) stop.abort(new Error('enough'))
    }
    const interrupted = runLoop(asClient(new OneWeight()), {
      recipe,
      batchAt,
      workFolder,
      saveEvery: 100,
      onStep,
      signal: stop.signal,
    })
    await expect(interrupted).rejects.toThrow('enough')
    const second = new OneWeight()
    await runLoop(asClient(second), { recipe, batchAt, workFolder, saveEvery: 100 })
    expect(second.seen).toEqual([5, 6, 7, 8, 9])
    expect(second.weight).toBe(whole.weight)
  })

  it('refuses the work folder of another recipe or of a newer format', async () => {
    const workFolder = await folder()
    await runLoop(asClient(new OneWeight()), { recipe, batchAt, workFolder, saveEvery: 5 })
    const other = { ...recipe, seed: 1 }
    const options = { batchAt, workFolder, saveEvery: 5 }
    await expect(runLoop(asClient(new OneWeight()), { recipe: other, ...options })).rejects.toThrow(ResumeError)
    const path = join(workFolder, 'progress.json')
    const progress = JSON.parse(await readFile(path, 'utf8')) as object
    await writeFile(path, JSON.stringify({ ...progress, formatVersion: 99 }))
    await expect(runLoop(asClient(new OneWeight()), { recipe, ...options })).rejects.toThrow(/format version 99/)
  })
})
