import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { loadAgents } from '../src/index.js'
import { ended, start } from './support/command.js'
import { writeTinyModel } from './support/tiny-model.js'

const example = fileURLToPath(new URL('../../../examples/length-ratio.ts', import.meta.url))
let model: string
let cwd: string

beforeAll(async () => {
  model = await writeTinyModel()
  cwd = await mkdtemp(join(tmpdir(), 'selfplay-example-'))
})
afterAll(async () => {
  for (const folder of [model, cwd]) await rm(folder, { recursive: true, force: true })
})

describe('examples/length-ratio.ts', () => {
  it('trains a model folder and saves both agents', async () => {
    const flags = ['--epochs', '1', '--generations', '4', '--max-new-tokens', '8', '--output', 'out']
    const { code, out, err } = await ended(start(example, [model, ...flags], { cwd }))
    expect([code, err]).toEqual([0, ''])
    expect(out).toMatch(/update 1\/10 {2}reward \d\.\d\d\n/)
    expect(out).toMatch(/update 10\/10 {2}reward \d\.\d\d\n/)
    const { config } = JSON.parse(await readFile(join(cwd, 'out', 'config.json'), 'utf8')) as { config: object }
    // What the flags left alone is the tutorial's.
    expect(config).toMatchObject({ agentLearningRate: 5e-5, loggingSteps: 10, numTurns: 1, numTrainEpochs: 1 })
    const agents = await loadAgents(join(cwd, 'out', 'agent_0'), 1)
    expect(agents[0]!.info.vocabSize).toBeGreaterThan(256)
    await agents[0]!.dispose()
  })

  it('needs a key for W&B', async () => {
    const { code, err } = await ended(start(example, [model, '--wandb'], { cwd, env: { WANDB_API_KEY: '' } }))
    expect(code).not.toBe(0)
    expect(err).toContain('WANDB_API_KEY is not set')
  })
})
