import { parseRecord, type RolloutRecord } from '@selfplay/trainer'
import { mean } from '../terminal/numbers.js'
import { noUpdate } from './read-update.js'
import { rolloutFile, scanRollouts, type FileSummary, type NodePlace, type RolloutFile } from './rollout-file.js'

/** A node whose prompt or answers contain the text. */
export interface FoundNode extends NodePlace {
  /** Whether what an agent was shown contains it. */
  readonly inPrompt: boolean
  /** Completions that contain it, [agent]. */
  readonly answers: readonly number[]
  /** Mean reward of the joint answers that contain it; of all when none does. Null: none was judged. */
  readonly reward: number | null
  /** Mean reward of all joint answers of the node. */
  readonly nodeReward: number | null
}

export interface Found {
  readonly file: RolloutFile
  readonly summary: FileSummary
  /** In the order of the file. */
  readonly nodes: readonly FoundNode[]
}

export interface FindOptions {
  /** Only this update. */
  readonly update?: number | undefined
  /** Only this prompt: its index in the data set, from 0. */
  readonly row?: number | undefined
  readonly signal?: AbortSignal | undefined
}

/** A pattern for text as it is; upper and lower case are the same. */
const patternOf = (text: string): RegExp => new RegExp(text.replaceAll(/[\\^$.*+?()[\]{}|/]/g, '\\$&'), 'iu')

/**
 * Looks for text in the prompts and the answers of a run, line by line.
 *
 * @throws RunFolderError when the folder holds no run, or one without trees, rollouts or that update.
 */
export async function findText(
  directory: string,
  text: string,
  { update, row, signal }: FindOptions = {},
): Promise<Found> {
  const file = await rolloutFile(directory)
  const nodes: FoundNode[] = []
  const pattern = patternOf(text)
  // Most lines can be passed over without parsing them: they contain it nowhere, spelt as JSON spells it.
  const spelt = patternOf(JSON.stringify(text).slice(1, -1))
  let seen = false
  const visit = (line: string, place: NodePlace) => {
    if (update !== undefined && place.step !== update) return
    seen = true
    if ((row !== undefined && place.row !== row) || !spelt.test(line)) return
    const node = search(parseRecord(line), pattern)
    if (node.inPrompt || node.answers.some((count) => count > 0)) nodes.push(node)
  }
  const summary = await scanRollouts(file, visit, signal)
  if (!seen) throw noUpdate(file, update!, summary)
  return { file, summary, nodes }
}

function search(record: RolloutRecord, pattern: RegExp): FoundNode {
  const { step, row, turn, roles, prompts, completions, answers } = record
  const shown = roles?.prompts ?? prompts.map(({ text }) => text)
  const texts = roles?.texts ?? completions.map((list) => list.map(({ text }) => text))
  const hits = texts.map((list) => list.map((text) => pattern.test(text)))
  const containing = answers.filter(({ generations }) =>
    hits.some((list, agent) => list[generations[roles ? 0 : agent]!] === true),
  )
  return {
    step,
    row,
    turn,
    inPrompt: shown.some((text) => pattern.test(text)),
    answers: hits.map((list) => list.filter(Boolean).length),
    reward: rewardOf(containing.length > 0 ? containing : answers),
    nodeReward: rewardOf(answers),
  }
}

/** Mean reward as the task gives it, over agents and joint answers that were judged. */
function rewardOf(answers: RolloutRecord['answers']): number | null {
  const rewards = answers.flatMap(({ rawRewards }) => rawRewards.filter((reward) => reward !== null))
  return rewards.length === 0 ? null : mean(rewards)
}
