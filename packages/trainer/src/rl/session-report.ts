import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { writeFileAtomic } from '../run/files.js'
import type { RunFolder } from '../run/run-folder.js'
import type { MetricsRow } from '../track/tracker.js'
import type { CreditedGroup } from './assemble.js'
import { toGroupRecord, type IdsToText } from './record.js'
import { renderReport } from './report/report.js'

const readRows = async (path: string): Promise<MetricsRow[]> =>
  (await readFile(path, 'utf8'))
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as MetricsRow)

/**
 * Writes `reports/step-<update>.html` from what the run folder holds and the groups of the newest update.
 * @returns its path.
 */
export async function writeReport(
  folder: RunFolder,
  step: number,
  groups: readonly CreditedGroup[],
  decode: IdsToText | undefined,
): Promise<string> {
  const path = join(folder.directory, 'reports', `step-${String(step).padStart(8, '0')}.html`)
  const content = {
    name: folder.name,
    rows: await readRows(folder.metrics.path),
    evaluations: await readRows(folder.evaluations.path),
    groups: groups.map((group) => toGroupRecord(group, step, decode)),
  }
  await writeFileAtomic(path, renderReport(content))
  return path
}
