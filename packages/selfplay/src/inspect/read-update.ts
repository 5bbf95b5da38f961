import { createReadStream } from 'node:fs'
import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { RUN_FORMAT, RunFolderError, parseRecord, type RolloutRecord } from '@selfplay/trainer'

/** Trainers whose runs are trees of joint answers. */
const TREES: ReadonlySet<unknown> = new Set(['MAGRPO', 'IAC', 'MAAC'])

/** The nodes of one update of a run. */
export interface UpdateRollouts {
  readonly trainer: string
  /** From 1. */
  readonly step: number
  /** The newest update in the file. */
  readonly last: number
  /** In the order of the file. */
  readonly records: readonly RolloutRecord[]
}

/**
 * Reads the rollouts of one update of a run folder, line by line.
 *
 * @param update from 1; undefined: the newest.
 * @throws RunFolderError when the folder holds no run, or one without trees, rollouts or that update.
 */
export async function readUpdate(
  directory: string,
  update: number | undefined,
  { signal }: { readonly signal?: AbortSignal } = {},
): Promise<UpdateRollouts> {
  const trainer = await trainerOf(directory)
  const path = join(directory, 'rollouts.jsonl')
  const exists = await stat(path).then(
    (found) => found.isFile(),
    () => false,
  )
  if (!exists) {
    throw new RunFolderError(`${directory} has no rollouts.jsonl: it was made with rollouts switched off`, { path })
  }
  const { lines, first, last } = await linesOf(path, update, signal)
  if (last === undefined) throw new RunFolderError(`${path} is empty: no update has finished yet`, { path })
  if (lines.length === 0) {
    throw new RunFolderError(`${path} has no update ${update}: expected one from ${first} to ${last}`, {
      path,
      first,
      last,
      got: update,
    })
  }
  return { trainer, step: update ?? last, last, records: lines.map((line) => parseRecord(line)) }
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
  throw new RunFolderError(
    `${directory} is a run of "${String(config.trainer)}": only runs of ${[...TREES].join(', ')} are trees of joint answers`,
    { trainer: config.trainer },
  )
}

/** Updates stand near the start of each line, so that not every line need be parsed. */
const STEP = /^\{"formatVersion":\d+,"step":(\d+),/

/** Lines of an update (or of the newest), and which updates there are. A line that is still being written does not count. */
async function linesOf(path: string, update: number | undefined, signal: AbortSignal | undefined) {
  const input = createReadStream(path, { encoding: 'utf8', ...(signal && { signal }) })
  let lines: string[] = []
  let first: number | undefined
  let last: number | undefined
  for await (const line of createInterface({ input, crlfDelay: Infinity })) {
    const step = line.endsWith('}') ? stepOf(line) : undefined
    if (step === undefined) continue
    first ??= step
    if (update === undefined && step !== last) lines = []
    last = step
    if (step === (update ?? step)) lines.push(line)
  }
  return { lines, first, last }
}

function stepOf(line: string): number | undefined {
  const near = STEP.exec(line)
  return near ? Number(near[1]) : parseRecord(line).step
}
