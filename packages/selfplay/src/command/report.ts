import { readFile } from 'node:fs/promises'
import { join, relative, sep } from 'node:path'
import type { ModelInfo } from '@selfplay/engine'
import type { Runtime } from '@selfplay/ort'
import { charCount } from '@selfplay/rewards'
import type { EvaluationChain } from '@selfplay/trainer'
import { bundledFolder } from '../agents.js'
import type { Recipe } from '../recipes.js'
import { rewardCurve } from '../terminal/curve.js'
import { counted, fixed, short } from '../terminal/numbers.js'
import { quoted } from '../terminal/quoted.js'
import { labelled, verbatim, wrap, type Screen } from '../terminal/screen.js'
import { oneLine } from '../terminal/strip.js'
import { version } from '../version.js'
import { flagOf, type RunPlan } from './settings.js'

/** Agents as a person reads about them: A, B, ... */
const letter = (agent: number): string => String.fromCharCode(65 + agent)

/** A folder as seen from the current one, with a separator at its end. */
const shownFolder = (cwd: string, directory: string): string => `${relative(cwd, directory) || '.'}${sep}`

export interface StartOptions {
  readonly plan: RunPlan
  readonly info: ModelInfo
  readonly runtime: Pick<Runtime, 'kind' | 'version' | 'threads'>
  readonly totalSteps: number | null
  readonly screen: Screen
  readonly cwd: string
}

/** What is trained and on what: the lines before the first update. */
export function describeStart({ plan, info, runtime, totalSteps, screen, cwd }: StartOptions): string {
  const { task, settings, directory, resume } = plan
  const { total, trained } = info.parameters
  const { rewardScale } = settings
  const model = info.training === 'full' ? total : total - trained
  const training =
    info.training === 'full'
      ? 'each trains all weights of its own'
      : `each trains an adapter of rank ${info.training.loraRank} (${short(trained)} parameters)`
  const rows: [string, string][] = [
    ['task', task.summary],
    ['model', `${settings.model} (${info.architecture}, ${short(model)} parameters)`],
    ['agents', `${task.agents}; ${training}`],
    [
      'data',
      `${counted(task.prompts.length, 'prompt')}, ${counted(settings.epochs, 'epoch')}` +
        `${totalSteps === null ? '' : `: ${counted(totalSteps, 'update')}`} of ` +
        `${uneven(plan) ? 'up to ' : ''}${counted(jointAnswers(plan), 'joint answer')}, at most ${settings.maxNewTokens} tokens long`,
    ],
    ['settings', describeSettings(plan)],
    ...(rewardScale === 1 ? [] : [['rewards', scaled(rewardScale)] satisfies [string, string]]),
    ['machine', `${counted(runtime.threads, 'thread')}, onnxruntime ${runtime.version} (${runtime.kind})`],
    [resume ? 'resumes' : 'run', shownFolder(cwd, directory)],
  ]
  return `selfplay ${version}  ${task.name}\n${rows.map(([label, text]) => labelled(screen, label, text)).join('')}`
}

const scaled = (factor: number): string =>
  `times ${factor} for training (reward_mean in metrics.jsonl); shown here as the task gives them`

/** Whose settings are in force, and the main ones that no other line has. */
function describeSettings({ task, settings }: RunPlan): string {
  const bundled = bundledFolder(settings.model) !== undefined
  const recipe = bundled ? task.recipes.tiny : task.recipes.others
  const keys = Object.keys(recipe) as (keyof Recipe)[]
  const changed = keys.filter((key) => settings[key] !== recipe[key]).map(flagOf)
  return (
    `${bundled ? 'for the bundled model' : "the tutorial's"}: ${mainSettings(settings)}` +
    (changed.length === 0 ? '' : `; changed: ${changed.join(', ')}`)
  )
}

/** The numbers that the quality of a run hangs on. */
export const mainSettings = ({ generations, jointMode, learningRate, ...more }: Recipe): string =>
  `${counted(generations, 'answer')} of each agent per prompt${jointMode === 'cross' ? ', judged each with each' : ''}; ` +
  `learning rate ${learningRate} (${more.learningRateSchedule}), temperature ${more.temperature}`

/** Whether the last update of an epoch has fewer prompts than the others. */
const uneven = ({ task, settings }: RunPlan): boolean => task.prompts.length % settings.promptsPerUpdate !== 0

/** Joint answers of the first turn of an update that has all its prompts. */
function jointAnswers({ task, settings }: RunPlan): number {
  const { promptsPerUpdate, generations, jointMode } = settings
  return promptsPerUpdate * (jointMode === 'cross' ? generations ** task.agents : generations)
}

export interface ReportOptions {
  readonly plan: RunPlan
  /** One prompt answered by the agents before and after. */
  readonly before: EvaluationChain
  readonly after: EvaluationChain
  readonly screen: Screen
  readonly cwd: string
}

/** What was learnt and where it is: the lines after the last update. */
export async function writeReport({ plan, before, after, screen, cwd }: ReportOptions): Promise<void> {
  const { task, settings, directory } = plan
  const updates = await readRows(join(directory, 'metrics.jsonl'))
  const numTurns = task.config?.numTurns ?? 1
  for (let turn = 1; turn <= numTurns; turn++) {
    const rewards = updates.map((row) => row[`turn_${turn}/raw_reward_mean`] ?? Number.NaN)
    const of = numTurns > 1 ? `, turn ${turn}` : ''
    screen.write(`\nmean reward of each update${of}\n${rewardCurve(rewards, { width: screen.width })}`)
  }
  screen.write('\n')
  screen.write(describeUnseen(await readRows(join(directory, 'evaluations.jsonl')), plan, screen))
  screen.write(verbatim(screen, 'before', describeAnswers(before, plan, screen)))
  screen.write(verbatim(screen, 'after', describeAnswers(after, plan, screen)))
  const models = Array.from({ length: task.agents }, (_, agent) => `agent_${agent}${sep} (${letter(agent)})`)
  screen.write(
    labelled(
      screen,
      'saved',
      `${shownFolder(cwd, directory)}\n${models.join(', ')}: models to load again; ` +
        `metrics.jsonl, rollouts.jsonl: each update, each answer; checkpoints${sep}`,
    ),
  )
  screen.write(verbatim(screen, 'look', `npx selfplay inspect ${quoted(relative(cwd, directory) || '.')}`))
  const yours =
    bundledFolder(settings.model) === undefined ? '' : `npx selfplay train ${task.name} --model ./your-model`
  if (yours !== '') screen.write(verbatim(screen, 'yours', yours))
}

function describeUnseen(rows: readonly Row[], { settings, task }: RunPlan, screen: Screen): string {
  if (settings.unseenPrompts === 0 || rows.length < 2) return ''
  const numTurns = task.config?.numTurns ?? 1
  const turns = Array.from({ length: numTurns }, (_, t) => {
    const reward = (row: Row | undefined) => fixed(row?.[`eval/turn_${t + 1}/raw_reward_mean`])
    return `${numTurns > 1 ? `turn ${t + 1}: ` : ''}${reward(rows[0])} before, ${reward(rows.at(-1))} after`
  })
  const prompts = counted(settings.unseenPrompts, 'prompt')
  return labelled(screen, 'unseen', `mean reward on ${prompts} never trained on: ${turns.join('; ')}`)
}

/** Lines that an answer may take; the run folder has it whole. */
const ANSWER_LINES = 4

/** The last turn of a chain: what was asked, what each agent said, what it was worth. */
function describeAnswers({ turns }: EvaluationChain, { task }: RunPlan, screen: Screen): string {
  const { prompts, completions, rawRewards } = turns.at(-1)!
  const texts = completions.map(({ text }) => text)
  const reward = fixed(rawRewards[0] ?? undefined)
  const lengths = texts.map((text) => `${charCount(text)} chars`)
  const head = Math.max(...lengths.map((length) => length.length)) + 5
  const room = Math.max(20, screen.width - head - 11)
  const answers = texts.map((text, agent) => {
    const lines = wrap(oneLine(text, room * ANSWER_LINES), room)
    return `${letter(agent)}  ${lengths[agent]!.padStart(head - 5)}  ${lines.join(`\n${' '.repeat(head)}`)}`
  })
  const title = `"${oneLine(prompts[0]!, Math.max(20, screen.width - 42))}"  ${task.describe(texts)}, reward ${reward}`
  return [title, ...answers].join('\n')
}

type Row = Readonly<Record<string, number | undefined>>

async function readRows(path: string): Promise<Row[]> {
  const text = await readFile(path, 'utf8')
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Row)
}
