import { RunFolderError, parseRecord, type RolloutRecord } from '@selfplay/trainer'
import { rolloutFile, scanRollouts, type FileSummary, type RolloutFile } from './rollout-file.js'

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
 * @param update from 1; undefined: the newest.
 * @throws RunFolderError when the folder holds no run, or one without trees, rollouts or that update.
 */
export async function readUpdate(
  directory: string,
  update: number | undefined,
  { signal }: { readonly signal?: AbortSignal } = {},
): Promise<UpdateRollouts> {
  const file = await rolloutFile(directory)
  let lines: string[] = []
  let newest: number | undefined
  const visit = (line: string, { step }: { readonly step: number }) => {
    if (update === undefined && step !== newest) lines = []
    newest = step
    if (step === (update ?? step)) lines.push(line)
  }
  const summary = await scanRollouts(file, visit, signal)
  if (lines.length === 0) throw noUpdate(file, update!, summary)
  return { file, summary, step: update ?? summary.last, records: lines.map((line) => parseRecord(line)) }
}

/** That an update is not in the file, and which are. */
export const noUpdate = ({ path }: RolloutFile, update: number, { first, last }: FileSummary): RunFolderError =>
  new RunFolderError(`${path} has no update ${update}: expected one from ${first} to ${last}`, {
    path,
    first,
    last,
    got: update,
  })
