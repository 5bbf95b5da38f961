import { charCount } from '@selfplay/rewards'
import type { RolloutRecord } from '@selfplay/trainer'
import { mean } from '../terminal/numbers.js'
import { bold, type Screen } from '../terminal/screen.js'
import { oneLine, stripControls } from '../terminal/strip.js'

export interface TreeTextOptions {
  readonly screen: Screen
  /** Show texts whole; default: one line each. */
  readonly full: boolean
  /** Show every joint answer; default: of a node with many, the best and the worst. */
  readonly all: boolean
}

/** Agents as a person reads about them: A, B, ... */
export const letter = (agent: number): string => String.fromCharCode(65 + agent)

/** Joint answers shown from each end of a node. */
const EACH_END = 3

const INDENT = '    '
/** A number in a column; `-` where an answer was left out. */
const cell = (value: number | null | undefined): string =>
  value === null || value === undefined ? '-' : value.toFixed(2)

/** What all agents have in common once, else one after another with their letters. */
function perAgent(values: readonly (number | null | undefined)[]): string {
  const cells = values.map(cell)
  return new Set(cells).size === 1 ? cells[0]! : cells.map((text, agent) => `${letter(agent)} ${text}`).join(' ')
}

/**
 * The tree of one prompt: what each agent was shown, every joint answer with its rewards, return and advantages, who was
 * ended and why, and below each answer the turn that it led to. Text of models has no control sequences left.
 *
 * @param records nodes of one prompt.
 */
export function treeText(records: readonly RolloutRecord[], options: TreeTextOptions): string {
  const byPath = new Map(records.map((record) => [record.path.join('.'), record]))
  const root = byPath.get('')
  if (!root) return `${INDENT}(its first turn is not in the file)\n`
  return nodeLines(root, byPath, options, '').join('\n') + '\n'
}

function nodeLines(
  record: RolloutRecord,
  byPath: ReadonlyMap<string, RolloutRecord>,
  options: TreeTextOptions,
  margin: string,
): string[] {
  const prompts = record.roles?.prompts ?? record.prompts.map(({ text }) => text)
  const shown = new Set(prompts).size === 1 ? [['', prompts[0]!]] : prompts.map((text, agent) => [letter(agent), text])
  const lines = [
    `${margin}${bold(options.screen, `turn ${record.turn}`)}`,
    ...shown.flatMap(([who, text]) => quote(who ? `prompt ${who}` : 'prompt', text!, options, margin)),
  ]
  const { best, worst, hidden } = chosen(record, options.all)
  const show = (j: number): void => {
    lines.push(...answerLines(record, j, options, margin))
    const child = record.answers[j]!.ending ? undefined : byPath.get([...record.path, j].join('.'))
    if (child) lines.push(...nodeLines(child, byPath, options, margin + INDENT))
  }
  best.forEach(show)
  if (hidden > 0)
    lines.push(`${margin}  ... ${hidden} more ${hidden === 1 ? 'answer' : 'answers'}: --all shows everything`)
  worst.forEach(show)
  return lines
}

/** Which answers are shown: all in their order, or the best and then the worst by reward; of those without one, none. */
function chosen({ answers }: RolloutRecord, all: boolean): { best: number[]; worst: number[]; hidden: number } {
  const indices = answers.map((_, j) => j)
  if (all || answers.length <= 2 * EACH_END) return { best: indices, worst: [], hidden: 0 }
  const valued = indices.flatMap((j) => {
    const rewards = answers[j]!.rawRewards.filter((reward) => reward !== null)
    return rewards.length === 0 ? [] : [{ j, reward: mean(rewards) }]
  })
  const order = valued.sort((a, b) => b.reward - a.reward).map(({ j }) => j)
  const best = order.slice(0, EACH_END)
  const worst = order.slice(EACH_END).slice(-EACH_END)
  return { best, worst, hidden: answers.length - best.length - worst.length }
}

function answerLines(record: RolloutRecord, j: number, options: TreeTextOptions, margin: string): string[] {
  const { generations, rawRewards, rewards, ending, reason } = record.answers[j]!
  const advantages = generations.map((k, agent) => record.advantages[agent]?.[k])
  const returns = record.jointReturns.map((list) => list[j])
  const parts = [
    `reward ${perAgent(rawRewards)}`,
    ...(String(rawRewards) === String(rewards) ? [] : [`processed ${perAgent(rewards)}`]),
    `return ${perAgent(returns)}`,
    `advantage ${perAgent(advantages)}`,
    ...(record.expected ? [`expected ${perAgent(generations.map((k, agent) => record.expected![agent]?.[k]))}`] : []),
  ]
  const end = endText(ending, reason)
  const crossed = record.answers.some((answer) => new Set(answer.generations).size > 1)
  const which = crossed ? ` (${generations.map((k, agent) => `${letter(agent)}${k + 1}`).join(' ')})` : ''
  const texts = record.roles
    ? record.roles.texts.map((list) => list[generations[0]!]!)
    : generations.map((k, agent) => record.completions[agent]![k]!.text)
  return [
    `${margin}  ${j + 1}${which}  ${parts.join('  ')}${end}`,
    ...texts.flatMap((text, agent) =>
      quote(`${letter(agent)}, ${charCount(text)} chars`, text, options, `${margin}  `),
    ),
  ]
}

function endText(ending: RolloutRecord['answers'][number]['ending'], reason: string | null): string {
  const why = reason ? `: ${oneLine(reason, 200)}` : ''
  if (ending === 'terminated') return `  ended early${why}`
  return ending === 'left_out' ? `  left out${why}` : ''
}

function quote(label: string, text: string, { screen, full }: TreeTextOptions, margin: string): string[] {
  const start = `${margin}${INDENT}${label}  `
  if (!full) return [start + oneLine(text, Math.max(20, screen.width - start.length))]
  const lines = stripControls(text).split('\n')
  return lines.map((line, i) => (i === 0 ? start : ' '.repeat(start.length)) + line)
}
