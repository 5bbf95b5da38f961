import { createReadStream } from 'node:fs'
import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { RUN_FORMAT, RunFolderError, parseRecord, type RolloutRecord } from '@selfplay/trainer'

/** Trainers whose runs are trees of joint answers. */
const TREES: ReadonlySet<unknown> = new Set(['MAGRPO', 'IAC', 'MAAC'])

/** The `rollouts.jsonl` of a run. */
export interface RolloutFile {
  readonly path: string
  readonly trainer: string
  readonly bytes: number
}

/** Where a node belongs. */
export type NodePlace = Pick<RolloutRecord, 'step' | 'row' | 'turn'>

/** What is in a file. */
export interface FileSummary {
  /** The first and the newest update. */
  readonly first: number
  readonly last: number
  readonly nodes: number
  /** Prompts of the data set that stand in it. */
  readonly prompts: number
  /** The highest turn. */
  readonly turns: number
}

/** @throws RunFolderError when the folder holds no run, or one without trees or rollouts. */
export async function rolloutFile(directory: string): Promise<RolloutFile> {
  const trainer = await trainerOf(directory)
  const path = join(directory, 'rollouts.jsonl')
  const found = await stat(path).catch(() => undefined)
  if (found?.isFile()) return { path, trainer, bytes: found.size }
  throw new RunFolderError(`${directory} has no rollouts.jsonl: it was made with rollouts switched off`, { path })
}

async function trainerOf(directory: string): Promise<string> {
  const path = join(directory, 'config.json')
  let config: { readonly trainer?: unknown; readonly formatVersion?: unknown }
  try {
    config = JSON.parse(await readFile(path, 'utf8')) as typeof config
  } catch (cause) {
    const missing = (cause as NodeJS.ErrnoException).code === 'ENOENT'
    const what = missing ? `${directory} holds no run: expected ${path}` : `${path} is not readable JSON`
    throw new RunFolderError(`${what}. Check the path`, { directory }, { cause })
  }
  if (typeof config.formatVersion === 'number' && config.formatVersion > RUN_FORMAT) {
    throw new RunFolderError(
      `${directory} has layout version ${config.formatVersion}; this version of selfplay knows up to ${RUN_FORMAT}: update it`,
      { formatVersion: config.formatVersion },
    )
  }
  if (TREES.has(config.trainer)) return String(config.trainer)
  const reports =
    config.trainer === 'rl' ? `. Its episodes are in ${join(directory, 'reports')}: open the HTML pages` : ''
  throw new RunFolderError(
    `${directory} is a run of "${String(config.trainer)}": only runs of ${[...TREES].join(', ')} are trees of joint answers${reports}`,
    { trainer: config.trainer },
  )
}

/** Places stand near the start of each line, so that not every line need be parsed. */
const PLACE = /^\{"formatVersion":\d+,"step":(\d+),"epoch":\d+,"envStep":\d+,"row":(\d+),"turn":(\d+),/

function placeOf(line: string): NodePlace {
  const near = PLACE.exec(line)
  return near ? { step: Number(near[1]), row: Number(near[2]), turn: Number(near[3]) } : parseRecord(line)
}

/** Whole lines, as they were written: JSON may hold other characters that end lines elsewhere, such as U+2028. */
async function* linesOf(input: AsyncIterable<string>): AsyncGenerator<string> {
  let rest = ''
  for await (const chunk of input) {
    rest += chunk
    if (!chunk.includes('\n')) continue
    const lines = rest.split('\n')
    rest = lines.pop()!
    yield* lines
  }
}

/**
 * Goes once through the nodes of a file. A line that is still being written does not count.
 *
 * @param visit called for each, in the order of the file
 * @throws RunFolderError when there is none yet
 */
export async function scanRollouts(
  { path }: RolloutFile,
  visit: (line: string, place: NodePlace) => void,
  signal?: AbortSignal,
): Promise<FileSummary> {
  const input = createReadStream(path, { encoding: 'utf8', ...(signal && { signal }) })
  const rows = new Set<number>()
  let [nodes, turns] = [0, 0]
  let first: number | undefined
  let last: number | undefined
  for await (const line of linesOf(input)) {
    if (!line.endsWith('}')) continue
    const place = placeOf(line)
    first ??= place.step
    last = place.step
    nodes++
    rows.add(place.row)
    turns = Math.max(turns, place.turn)
    visit(line, place)
  }
  if (first === undefined || last === undefined)
    throw new RunFolderError(`${path} is empty: no update has finished yet`, { path })
  return { first, last, nodes, prompts: rows.size, turns }
}
