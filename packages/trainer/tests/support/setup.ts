import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach } from 'vitest'
import type { JointRewardFunction } from '@selfplay/rewards'
import { MAGRPOTrainer, type MAGRPOTrainerOptions } from '../../src/magrpo/trainer.js'
import type { PromptRow } from '../../src/magrpo/types.js'
import { ToyClient } from './toy-client.js'

const folders: string[] = []
afterEach(async () => {
  await Promise.all(folders.splice(0).map((folder) => rm(folder, { recursive: true, force: true })))
})

/** A folder that is gone after the test. */
export async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'selfplay-trainer-'))
  folders.push(folder)
  return folder
}

export async function readLines(path: string): Promise<Record<string, unknown>[]> {
  const text = await readFile(path, 'utf8')
  return text
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Record<string, unknown>)
}

/** Without the numbers that vary from run to run. */
export const exact = (row: Readonly<Record<string, unknown>>) =>
  Object.fromEntries(Object.entries(row).filter(([name]) => !/^(time|perf)\//.test(name)))

/** More a's is better, for every agent. */
export const countA: JointRewardFunction = ({ completions }) =>
  completions[0]!.map((_, k) => completions.reduce((sum, texts) => sum + texts[k]!.split('a').length - 1, 0))

export const rows = (n: number): PromptRow[] => Array.from({ length: n }, (_, i) => ({ prompt: 'abcdefgh'[i % 8]! }))

/** A transition where there is a next turn; a trainer of one turn refuses it. */
export const inTurns = <T>(numTurns: number | undefined, externalTransition: T) =>
  (numTurns ?? 1) > 1 ? { externalTransition } : {}

type Options = Partial<MAGRPOTrainerOptions<PromptRow>>

/** Two toy agents on a small task, with whatever a test wants to be different. */
export function toyTrainer({ config, ...options }: Options = {}) {
  const agents = (options.agents ?? [new ToyClient(), new ToyClient()]) as ToyClient[]
  const trainer = new MAGRPOTrainer<PromptRow>({
    rewardFunc: countA,
    trainDataset: rows(3),
    onNotice: () => {},
    ...options,
    agents,
    config: { numTrainEpochs: 2, maxNewTokens: 6, agentLearningRate: 0.05, order: 'fixed', ...config },
  })
  return { trainer, agents }
}
