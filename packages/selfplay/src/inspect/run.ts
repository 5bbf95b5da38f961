import { resolve } from 'node:path'
import { UsageError } from '../command/failure.js'
import { counted } from '../terminal/numbers.js'
import { bold, labelled, type Screen } from '../terminal/screen.js'
import type { InspectOptions } from './command.js'
import { readUpdate } from './read-update.js'
import { treeText } from './tree-text.js'

/**
 * Writes the trees of one update.
 *
 * @throws RunFolderError when there is no such run or update; UsageError when the prompt is not among its prompts.
 */
export async function runInspect(
  run: string,
  { update, prompt, full, all }: InspectOptions,
  { screen, cwd, signal }: { readonly screen: Screen; readonly cwd: string; readonly signal?: AbortSignal },
): Promise<void> {
  const directory = resolve(cwd, run)
  const { trainer, step, last, records } = await readUpdate(directory, update, signal ? { signal } : {})
  const rows = [...new Set(records.map(({ row }) => row))]
  const chosen = prompt === undefined ? rows : rows.filter((row) => row === prompt - 1)
  if (chosen.length === 0) {
    throw new UsageError(
      `update ${step} has no prompt ${prompt}: it has ${rows.map((row) => row + 1).join(', ')}. Choose one of them`,
      { prompt, known: rows.map((row) => row + 1) },
    )
  }
  const nodes = records.filter(({ row }) => chosen.includes(row))
  const answers = nodes.reduce((sum, node) => sum + node.answers.length, 0)
  screen.write(labelled(screen, 'run', `${directory} (${trainer})`))
  screen.write(
    labelled(
      screen,
      'update',
      `${step} (the newest is ${last}): ${counted(chosen.length, 'prompt')}, ${counted(nodes.length, 'node')}, ` +
        counted(answers, 'joint answer'),
    ),
  )
  for (const row of chosen) {
    screen.write(`\n${bold(screen, `prompt ${row + 1}`)}\n`)
    const own = nodes.filter((node) => node.row === row)
    screen.write(treeText(own, { screen, full: full === true, all: all === true }))
  }
}
