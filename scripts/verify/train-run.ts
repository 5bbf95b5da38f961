import { createHash } from 'node:crypto'
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { parseRecord, type RolloutRecord } from '@selfplay/trainer'
import { loadAgents } from '../../packages/selfplay/src/agents.js'
import { planRun, type RunPlan, type SettingFlags } from '../../packages/selfplay/src/command/settings.js'
import { runTrain } from '../../packages/selfplay/src/command/train.js'
import type { CheckContext } from './check.js'

type Numbers = Readonly<Record<string, number | undefined>>

/** A finished `selfplay train`, read from its folder. */
export interface TrainRun {
  readonly plan: RunPlan
  /** A row per update. */
  readonly metrics: readonly Numbers[]
  /** A row per evaluation, the one before the first update first. */
  readonly evaluations: readonly Numbers[]
  /** Every node that was sampled. */
  readonly rollouts: readonly RolloutRecord[]
}

/**
 * Does what `selfplay train <task>` does, with these flags and the context's model, seed and folder.
 * @throws what the command throws, with the last lines of its output.
 */
export async function trainRun(task: string, flags: SettingFlags, context: CheckContext): Promise<TrainRun> {
  const { model, seed, directory, signal } = context
  const plan = await planRun(
    task,
    { ...flags, model, seed, output: directory },
    { cwd: process.cwd(), now: new Date() },
  )
  let output = ''
  const screen = { live: false, colours: false, width: 100, write: (text: string) => void (output += text) }
  try {
    await runTrain(plan, { screen, signal, cwd: process.cwd() })
  } catch (error) {
    throw new Error(`${task}, seed ${seed}: ${String(error)}\n${output.slice(-2000)}`, { cause: error })
  }
  const numbers = async (name: string) => (await lines(directory, name)).map((line) => JSON.parse(line) as Numbers)
  return {
    plan,
    metrics: await numbers('metrics.jsonl'),
    evaluations: await numbers('evaluations.jsonl'),
    rollouts: (await lines(directory, 'rollouts.jsonl')).map(parseRecord),
  }
}

async function lines(directory: string, name: string): Promise<string[]> {
  const text = await readFile(join(directory, name), 'utf8')
  return text.split('\n').filter((line) => line !== '')
}

/**
 * A number of every row.
 * @throws RangeError naming the row without it.
 */
export function series(rows: readonly Numbers[], name: string): number[] {
  return rows.map((row, index) => {
    const value = row[name]
    if (value === undefined) throw new RangeError(`row ${index + 1} has no ${name}: were all of its answers left out?`)
    return value
  })
}

/** SHA-256 of the weights that each agent of a run starts from, as the command loads them. */
export async function startHashes({ plan }: TrainRun, { directory, signal }: CheckContext): Promise<string[]> {
  const { model, seed, loraRank } = plan.settings
  const adapters = loraRank > 0 && ({ mode: 'adapters', lora: { rank: loraRank, alpha: 2 * loraRank } } as const)
  const agents = await loadAgents(model, plan.task.agents, { seed, signal, ...adapters })
  const folder = join(directory, 'start')
  const hashes: string[] = []
  for (const agent of agents) {
    await agent.exportModel(folder, { signal, format: adapters ? 'adapter' : 'merged' })
    const weights = await readFile(join(folder, adapters ? 'adapter_model.safetensors' : 'model.safetensors'))
    hashes.push(createHash('sha256').update(weights).digest('hex'))
    await rm(folder, { recursive: true })
    await agent.dispose()
  }
  return hashes
}
