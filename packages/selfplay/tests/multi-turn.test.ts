import { mkdtemp, readFile, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { selfplay } from './support/command.js'
import { writeTinyModel } from './support/tiny-model.js'

let model: string
let cwd: string
beforeAll(async () => {
  model = await writeTinyModel()
  cwd = await mkdtemp(join(tmpdir(), 'selfplay-multi-turn-'))
})
afterAll(async () => {
  for (const folder of [model, cwd]) await rm(folder, { recursive: true, force: true })
})

const flags = '--epochs 1 --max-steps 3 --generations 3 --max-new-tokens 8 --threads 1 --unseen-prompts 2'.split(' ')
const train = (...more: string[]) => selfplay(['train', 'multi-turn-feedback', ...more], { cwd })

describe('selfplay train multi-turn-feedback', () => {
  it('trains two turns, tells of both, and its run can be inspected', async () => {
    const { code, out, err } = await train(...flags, '--output', 'run')
    expect([code, err]).toEqual([0, ''])
    expect(out.replaceAll(/\s+/g, ' ')).toMatch(
      /2 prompts never trained on: turn 1: \d\.\d\d before, \d\.\d\d after; turn 2: \d\.\d\d before, \d\.\d\d after/,
    )
    expect(out).toMatch(/ {2}rewards \d\.\d\d -> (\d\.\d\d|-) \(mean of 1\)/)
    for (const turn of [1, 2]) expect(out).toContain(`mean reward of each update, turn ${turn}\n`)
    const [line] = (await readFile(join(cwd, 'run', 'metrics.jsonl'), 'utf8')).split('\n')
    const metrics = JSON.parse(line!) as Record<string, number>
    for (const name of [
      'turn_1/reward_mean',
      'turn_2/reward_mean',
      'turn_1/expected_return',
      'agent_1/turn_2/reward_mean',
    ]) {
      expect(metrics[name]).toBeTypeOf('number')
    }
    const tree = await selfplay(['inspect', 'run', '--update', '1', '--full'], { cwd })
    expect(tree.code).toBe(0)
    expect(tree.out).toMatch(/update +1 \(the newest is 3\): 4 prompts, \d+ nodes/)
    expect(tree.out).toMatch(/ended early: reward|The second answer was \d+\.\d times as long as the first; the goal/)
  })

  it('goes on where it stopped', async () => {
    const { code, out, err } = await train('--resume', 'run')
    expect([code, err]).toEqual([0, ''])
    expect(out).toMatch(/resumes +run/)
    expect((await readdir(join(cwd, 'run'))).sort()).toContain('agent_1')
  })
})
