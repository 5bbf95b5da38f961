import { RunFolderError, parseRecord, type RolloutRecord } from '@selfplay/trainer'
import { rolloutFile, scanRollouts, type FileSummary, type NodePlace, type RolloutFile } from './rollout-file.js'

/** The nodes of one update of a run. */
export interface UpdateRollouts {
  readonly file: RolloutFile
  readonly summary: FileSummary
  /** From 1. */
  readonly step: number
  /** In the order of the file. */
  readonly records: readonly RolloutRecord[]
}

/**
 * Reads the rollouts of one update of a run folder, line by line.
 *
 * @param update from 1; undefined: the newest, or the newest that has `row`.
 * @throws RunFolderError when the folder holds no run, or one without trees, rollouts or that update.
 */
export async function readUpdate(
  directory: string,
  update: number | undefined,
  { row, signal }: { readonly row?: number | undefined; readonly signal?: AbortSignal | undefined } = {},
): Promise<UpdateRollouts> {
  const file = await rolloutFile(directory)
  let lines: string[] = []
  /** The newest update that is wanted, and its lines. */
  let found: { readonly step: number; readonly lines: readonly string[] } | undefined
  let newest: number | undefined
  const visit = (line: string, place: NodePlace) => {
    if (place.step !== newest) lines = []
    newest = place.step
    lines.push(line)
    const wanted =
      update === undefined ? row === undefined || place.row === row || found?.step === newest : update === newest
    if (wanted) found = { step: newest, lines }
  }
  const summary = await scanRollouts(file, visit, signal)
  if (!found && update !== undefined) throw noUpdate(file, update, summary)
  const { step, lines: own } = found ?? { step: summary.last, lines }
  return { file, summary, step, records: own.map((line) => parseRecord(line)) }
}

/** That an update is not in the file, and which are. */
export const noUpdate = ({ path }: RolloutFile, update: number, { first, last }: FileSummary): RunFolderError =>
  new RunFolderError(`${path} has no update ${update}: expected one from ${first} to ${last}`, {
    path,
    first,
    last,
    got: update,
  })
