import { resolve } from 'node:path'
import { UsageError } from '../command/failure.js'
import { counted, fileSize, fixed } from '../terminal/numbers.js'
import { quoted } from '../terminal/quoted.js'
import { bold, labelled, verbatim, type Screen } from '../terminal/screen.js'
import { oneLine } from '../terminal/strip.js'
import type { InspectOptions } from './command.js'
import { findText, type FoundNode } from './find.js'
import { readUpdate } from './read-update.js'
import type { FileSummary, RolloutFile } from './rollout-file.js'
import { letter, treeText } from './tree-text.js'

interface InspectPlace {
  readonly screen: Screen
  readonly cwd: string
  readonly signal?: AbortSignal
}

/**
 * Writes the trees of one update; or, with `find`, which nodes contain a text.
 *
 * @throws RunFolderError when there is no such run or update; UsageError when the prompt is not among its prompts.
 */
export async function runInspect(run: string, options: InspectOptions, place: InspectPlace): Promise<void> {
  const directory = resolve(place.cwd, run)
  await (options.find === undefined
    ? showUpdate(directory, options, place)
    : showFound(directory, run, options.find, options, place))
}

async function showUpdate(
  directory: string,
  { update, prompt, full, all }: InspectOptions,
  { screen, signal }: InspectPlace,
): Promise<void> {
  const { file, summary, step, records } = await readUpdate(directory, update, {
    row: prompt === undefined ? undefined : prompt - 1,
    signal,
  })
  const rows = [...new Set(records.map(({ row }) => row))]
  const chosen = prompt === undefined ? rows : rows.filter((row) => row === prompt - 1)
  if (chosen.length === 0) {
    const which =
      update === undefined ? `no update has prompt ${prompt}; the newest` : `update ${step} has no prompt ${prompt}: it`
    throw new UsageError(`${which} has ${rows.map((row) => row + 1).join(', ')}. Choose one of them`, {
      prompt,
      known: rows.map((row) => row + 1),
    })
  }
  const nodes = records.filter(({ row }) => chosen.includes(row))
  const answers = nodes.reduce((sum, node) => sum + node.answers.length, 0)
  screen.write(describeFile(directory, file, summary, screen))
  screen.write(
    labelled(
      screen,
      'update',
      `${step} (the newest is ${summary.last}): ${counted(chosen.length, 'prompt')}, ${counted(nodes.length, 'node')}, ` +
        counted(answers, 'joint answer'),
    ),
  )
  for (const row of chosen) {
    screen.write(`\n${bold(screen, `prompt ${row + 1}`)}\n`)
    const own = nodes.filter((node) => node.row === row)
    screen.write(treeText(own, { screen, full: full === true, all: all === true }))
  }
}

/** Whose file it is, and what is in it. */
function describeFile(directory: string, file: RolloutFile, summary: FileSummary, screen: Screen): string {
  const { first, last, nodes, prompts, turns } = summary
  const updates = first === last ? `update ${first}` : `updates ${first} to ${last}`
  const holds =
    `${updates}: ${counted(nodes, 'node')} of ${counted(prompts, 'prompt')}` +
    `${turns > 1 ? ` over ${turns} turns` : ''}, ${fileSize(file.bytes)}`
  return labelled(screen, 'run', `${directory} (${file.trainer})`) + labelled(screen, 'holds', holds)
}

/** Characters that can be looked for. */
const LONGEST = 1000

/** Nodes that are listed; the newest ones. */
const LISTED = 20

async function showFound(
  directory: string,
  run: string,
  text: string,
  { update, prompt, full, all }: InspectOptions,
  { screen, signal }: InspectPlace,
): Promise<void> {
  if (full) throw new UsageError('--find lists nodes, and --full shows texts of one update: leave one of them out')
  if (text.length > LONGEST)
    throw new UsageError(
      `--find takes a text of at most ${LONGEST} characters, got ${text.length}: a part of it will do`,
    )
  const row = prompt === undefined ? undefined : prompt - 1
  const { file, summary, nodes } = await findText(directory, text, { update, row, signal })
  screen.write(describeFile(directory, file, summary, screen))
  const updates = new Set(nodes.map(({ step }) => step)).size
  const amount = nodes.length === 0 ? 'no node' : `${counted(nodes.length, 'node')} of ${counted(updates, 'update')}`
  const within = [
    update === undefined ? '' : ` of update ${update}`,
    prompt === undefined ? '' : ` of prompt ${prompt}`,
  ]
  screen.write(
    labelled(screen, 'found', `"${oneLine(text, 60)}" in ${amount}${nodes.length === 0 ? within.join('') : ''}`),
  )
  if (nodes.length === 0) return
  const shown = all ? nodes : nodes.slice(-LISTED)
  screen.write(`\n${table(shown)}`)
  if (shown.length < nodes.length)
    screen.write(`  ... ${nodes.length - shown.length} earlier: --all lists everything\n`)
  const best = shown.reduce((a, b) => ((b.reward ?? -Infinity) > (a.reward ?? -Infinity) ? b : a))
  const look = `npx selfplay inspect ${quoted(run)} --update ${best.step} --prompt ${best.row + 1}`
  screen.write(`\n${verbatim(screen, 'look', look)}`)
}

/** A line per node: where it is, where the text is, and what the answers with it were worth. */
function table(nodes: readonly FoundNode[]): string {
  const rows = nodes.map(({ step, row, turn, inPrompt, answers, reward, nodeReward }) => {
    const counts = answers.flatMap((count, agent) => (count > 0 ? [`${letter(agent)} ${count}`] : []))
    const places = [...(inPrompt ? ['prompt'] : []), ...(counts.length > 0 ? [`answers ${counts.join(', ')}`] : [])]
    const rewards = counts.length === 0 ? '' : `  (node ${fixed(nodeReward ?? undefined)})`
    return [
      `update ${step}`,
      `prompt ${row + 1}`,
      `turn ${turn}`,
      places.join('; '),
      `reward ${fixed(reward ?? undefined)}${rewards}`,
    ]
  })
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((cells) => cells[column]!.length)))
  return rows
    .map((cells) => `  ${cells.map((cell, i) => cell.padEnd(widths[i]!)).join('  ')}`.trimEnd() + '\n')
    .join('')
}
